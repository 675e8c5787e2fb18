"""Chaos: simulator, faults, workloads, checkers (grows with the chaos suite)."""

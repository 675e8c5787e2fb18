"""Horae node: wires the parts together; decides WHEN (the state machine decides WHO)."""

"""What can go wrong with a measurement."""


class BenchFailed(Exception):
    """No figure could be taken; the message says why, in a line."""

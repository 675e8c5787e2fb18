"""The HTTP surface: JSON to values and back, errors, and the client."""

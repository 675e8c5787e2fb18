"""A replicated, durable, ordered log of byte strings on top of PySyncObj."""

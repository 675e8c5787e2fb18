"""The pure state machine: commands in, replies and events out, inside one LMDB transaction."""

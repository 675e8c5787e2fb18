"""A Unix socket's address is at most 107 bytes long, but a data directory's path may be longer: such a socket is
reached through a descriptor of its directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS_BYTES_MAX = 107


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address of the socket at `path` for bind or connect, good within the context. Raises OSError if the directory
    is not there."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)

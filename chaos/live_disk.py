"""A small disk of its own for a node, so that it can be full: an ext4 image, mounted on the data directory (root)."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.live_network import command

DISK_BYTES = 256 * 1024 * 1024
"""Much more than a node of a chaos run needs, until it is filled."""
FILLER = "filler"
PIECE_BYTES = 8 * 1024 * 1024
PIECE_BYTES_MIN = 4096


class SmallDisk:
    """Mounted at `place`; `close` unmounts it."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self._place = place
        self._mounted = False

    async def open(self) -> None:
        """Raises NetworkFailed when it cannot be mounted here."""
        self._place.mkdir(parents=True, exist_ok=True)
        self._image.touch()
        os.truncate(self._image, DISK_BYTES)
        await command("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        await command("mount", "-o", "loop", str(self._image), str(self._place))
        self._mounted = True

    def fill(self) -> None:
        """Take all that is free."""
        descriptor = os.open(self._place / FILLER, os.O_RDWR | os.O_CREAT)
        try:
            end, piece = 0, PIECE_BYTES
            while piece >= PIECE_BYTES_MIN:
                try:
                    os.posix_fallocate(descriptor, end, piece)
                    end += piece
                except OSError:
                    piece //= 2
        finally:
            os.close(descriptor)

    def free(self) -> None:
        (self._place / FILLER).unlink(missing_ok=True)

    async def close(self) -> None:
        if self._mounted:
            await command("umount", str(self._place), check=False)
            self._mounted = False

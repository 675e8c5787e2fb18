"""A real small file system under a test's directory: mounted as root, or the test is skipped with the reason."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

PAGE_BYTES = 4096
FILLER = "filler"


class SmallDisk:
    """A tmpfs of `size_bytes` at `place`."""

    def __init__(self, place: Path, size_bytes: int) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.place = place
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)], capture_output=True, text=True
        )
        if mounted.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take what is free, but for `leave_bytes`: never more for a moment, since it is looked at all the time."""
        with (self.place / FILLER).open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while self._free_bytes() > leave_bytes:
                filler.write(bytes(PAGE_BYTES))

    def _free_bytes(self) -> int:
        system = os.statvfs(self.place)
        return system.f_bavail * system.f_frsize

    def free(self) -> None:
        (self.place / FILLER).unlink(missing_ok=True)

    def grow(self, size_bytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", str(self.place)], check=True)

    def read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.place)], check=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=True)

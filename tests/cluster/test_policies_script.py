"""docs/policies.sh does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.ports import PortBlock

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240.0


def test_the_walk_through_the_policies(tmp_path: Path) -> None:
    """It ends with an error as soon as something is not as it says, and shows it. (M3, M4, M9, M18, M19)"""
    ports = PortBlock(1)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        ended = subprocess.run(
            ["bash", ROOT / "docs" / "policies.sh", str(ports.ports[0])],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        ports.release()
    assert ended.returncode == 0, ended.stdout
    assert list(tmp_path.iterdir()) == [], "it leaves something behind"

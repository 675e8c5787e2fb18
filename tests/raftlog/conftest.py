"""Makes this directory's own modules (raftlog_bench, raftlog_simulator, …) importable by its tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

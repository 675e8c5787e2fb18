"""The log process of a node: `python -m node.log_process <settings as JSON>`, started by serve.py and by nobody else.

Here the replicated log meets the state machine; they know nothing of each other.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from node.clock import SystemClock
from node.config import ServeSettings, read_secret
from node.log_records import set_up_logging
from raftlog.config import MIB, RaftConfig
from raftlog.interface import Applier
from raftlog.process import LogSettings, run_log_process
from statemachine.machine import Machine

COLLECTIONS = (50_000, 20, 100)
"""Thresholds of Python's garbage collector, for both processes: they make many short-lived values and hardly a cycle,
and hold tens of thousands of long-lived ones that a full collection would walk through in the middle of a burst."""

WITHOUT_CTRL_C = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""A terminal's Ctrl-C goes to the whole group, but it is the node process that ends this one. What is ignored stays so
over exec: thus from the interpreter's first moment on, when no code of ours could do it. The process id stays, too."""


class LogProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is told. The secret itself stays in its file: arguments can be read by others."""

    data_dir: str
    node: str
    raft: str | None
    peers: dict[str, str]
    secret_file: str
    bootstrap: bool
    raft_log_mib: int
    log_level: str
    log_format: str


def command_line(settings: ServeSettings) -> Sequence[str]:
    """How serve.py starts it."""
    told = LogProcessSettings(
        data_dir=str(settings.data_dir),
        node=settings.node_id,
        raft=None if settings.worker else settings.raft,
        peers=dict(settings.peers),
        secret_file=str(settings.cluster_secret_file),
        bootstrap=settings.bootstrap,
        raft_log_mib=settings.raft_log_mib,
        log_level=settings.log_level,
        log_format=settings.log_format,
    )
    return (*WITHOUT_CTRL_C, sys.executable, "-m", __name__, msgspec.json.encode(told).decode())


def main(text: str) -> int:
    """Be the log process; returns its exit code."""
    settings = msgspec.json.decode(text, type=LogProcessSettings)
    set_up_logging(node=settings.node, level=settings.log_level, log_format=settings.log_format)
    gc.set_threshold(*COLLECTIONS)
    log_settings = LogSettings(
        data_dir=Path(settings.data_dir),
        node=settings.node,
        listen=settings.raft,
        peers=settings.peers,
        secret=read_secret(Path(settings.secret_file)),
        bootstrap=settings.bootstrap,
        raft=RaftConfig(log_keep_bytes=settings.raft_log_mib * MIB),
    )
    return run_log_process(log_settings, _applier, monotonic=SystemClock().monotonic)


def _applier(environment: Any) -> Applier:
    # The state machine knows no raftlog: it has the Applier's shape, with values of its own that have the same fields.
    return cast(Applier, Machine(environment))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

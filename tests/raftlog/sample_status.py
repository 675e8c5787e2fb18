"""A status as good as any."""

from __future__ import annotations

from raftlog.interface import LogStatus, Role

STATUS = LogStatus(
    node="n1",
    role=Role.LEADER,
    leader="n1",
    term=3,
    commit_index=9,
    applied_index=9,
    last_index=9,
    quorum=True,
    members=("n1", "n2", "n3"),
)

"""A node of the cluster as people see it: from its session, and from what the log knows of it."""

from __future__ import annotations

from node.interface import NodeView
from raftlog.interface import LogStatus
from statemachine.records import Session


def role_of(node: str, status: LogStatus) -> str:
    if node not in status.members:
        return "worker"
    return "leader" if node == status.leader else "follower"


def node_view(session: Session, *, role: str, buckets: int, disk_low: bool, skew_s: float | None) -> NodeView:
    return NodeView(
        node=session.node,
        http=session.http,
        raft=session.raft,
        role=role,
        live=session.live,
        buckets=buckets,
        running=session.running,
        slots=session.slots,
        kind_slots=session.kind_slots,
        tags=session.tags,
        applied_index=session.applied_index or None,
        disk_low=disk_low,
        skew_s=skew_s,
        version=session.version,
        tzdata=session.tzdata,
    )


def never_seen(node: str, raft: str) -> Session:
    """What stands for the session of a member that has not opened one yet."""
    return Session(
        node=node,
        incarnation=0,
        live=False,
        http="",
        raft=raft,
        slots=0,
        ahead=0,
        wall_ms=0,
        opened_ms=0,
        version="",
        tzdata="",
    )

"""A leader's attempt to hand its office to a follower, instead of leaving the others to notice that it is gone."""

from __future__ import annotations

from raftlog.interface import LogStatus


class Handover:
    """While it is under way the leader appends nothing, so that the follower can have everything. It ends by itself:
    with the leadership, or at its time, and then the leader goes on as before."""

    def __init__(self) -> None:
        self.target: str | None = None
        """The follower that is to lead; None when no handover is under way."""
        self.told = False
        """Whether it was told to stand: once, since it stands at once or not at all."""
        self.ends_at = float("inf")

    def begin(self, target: str, ends_at: float) -> None:
        self.target, self.told, self.ends_at = target, False, ends_at

    def end(self) -> None:
        self.target, self.ends_at = None, float("inf")

    def is_under_way(self) -> bool:
        return self.target is not None


def check_successor(status: LogStatus, to: str | None) -> None:
    """Raises ValueError if `to` names anybody but another member."""
    if to is not None and (to == status.node or to not in status.members):
        raise ValueError(f"{to!r} is not another member of {', '.join(status.members)}")

"""What the leader's node does for the cluster: it ends the sessions of the dead and keeps every bucket owned.

`step(now_s, now_ms, view, results) -> duties`, called a few times a second beside the log's leader; `now_s` is
CLOCK_BOOTTIME.
Every command is a compare-and-set, so two nodes that both believe they lead can do no harm.

A session is judged by how long THIS node has not seen its renewal number rise. That only means something while this
node looks: a new leader, or one that stalled, first grants everybody a full TTL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from node.buckets import plan_moves
from node.config import ClusterSettings
from statemachine.clock import is_off
from statemachine.commands import AssignBuckets, ExpireSession, SuspectSession
from statemachine.records import BucketOwner, Session

DutyName = tuple[str, str, int]
"""What is to be done, to which node's session, of which incarnation: one proposal of it at a time."""
DUTY_AGAIN_AFTER_S = 2.0
"""How long a duty that was proposed waits for its result before it is proposed again."""
BALANCED_AGAIN_AFTER_S = 2.0
"""Buckets that are well distributed are looked at again after so long, should the word of a move be lost: to read all
of them a few times a second was most of what an idle leader did."""


class DutiesView(Protocol):
    """What the duties look at: a snapshot of the state."""

    def sessions(self) -> Sequence[Session]:
        """The last session of every node, live or not."""
        ...

    def bucket_owners(self) -> Sequence[BucketOwner]:
        """The owner of bucket 0, 1, … up to the last."""
        ...

    def clock_ms(self) -> int | None:
        """The cluster's clock, which those of the sessions are compared with."""
        ...

    def ended_sessions(self) -> Sequence[tuple[str, int]]:
        """(node, incarnation) of the ended sessions that still have claims to be given back."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DutyDone:
    """A proposed duty got its result, or failed: it may be looked at again."""

    duty: DutyName


@dataclass(frozen=True, kw_only=True, slots=True)
class Duty:
    """A command to propose, and the name to report its end with."""

    name: DutyName
    command: ExpireSession | SuspectSession | AssignBuckets


@dataclass(slots=True)
class _Sighting:
    incarnation: int
    renewal: int
    seen_s: float


class LeaderDuties:
    """Remembers when it saw which renewal. Call `step` only while this node leads; `stand_down` when it does not."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._sightings: dict[str, _Sighting] = {}
        self._off_since_s: dict[str, float] = {}
        """Nodes whose wall clock is off, and since when this leader has seen it so."""
        self._last_step_s: float | None = None
        self._proposed: dict[DutyName, float] = {}
        self._balanced_among: Sequence[str] | None = None
        """The nodes among which the buckets were found well distributed; None: nobody has looked since they moved."""
        self._balanced_until_s = 0.0

    def stand_down(self) -> None:
        """This node does not lead: what it saw is worth nothing when it leads again."""
        self._sightings.clear()
        self._off_since_s.clear()
        self._proposed.clear()
        self.buckets_moved()
        self._last_step_s = None

    def step(self, now_s: float, now_ms: int, view: DutiesView, results: Sequence[DutyDone] = ()) -> list[Duty]:
        """Look at the sessions and buckets, and say what is to be proposed. `now_ms` is the wall clock, for the
        stamps."""
        for result in results:
            self._proposed.pop(result.duty, None)
        if self._last_step_s is None or now_s - self._last_step_s > self._settings.grant_after_stall_s:
            self._sightings.clear()
        self._last_step_s = now_s
        live = [session for session in view.sessions() if session.live]
        self._look(now_s, live)
        self._compare_clocks(now_s, live, view.clock_ms())
        duties = self._expire_the_dead(now_s, now_ms, live)
        duties += self._suspect_the_silent(now_s, now_ms, live)
        duties += self._reap_the_ended(now_ms, view)
        duties += self._assign(now_s, now_ms, live, view)
        return [duty for duty in duties if self._claim(duty.name, now_s)]

    def _look(self, now_s: float, live: Sequence[Session]) -> None:
        for session in live:
            seen = self._sightings.get(session.node)
            if seen is None or (seen.incarnation, seen.renewal) != (session.incarnation, session.renewal):
                self._sightings[session.node] = _Sighting(session.incarnation, session.renewal, now_s)

    def _compare_clocks(self, now_s: float, live: Sequence[Session], clock_ms: int | None) -> None:
        off = [session.node for session in live if is_off(session.wall_ms, clock_ms)]
        self._off_since_s = {node: self._off_since_s.get(node, now_s) for node in off}

    def buckets_moved(self) -> None:
        """Buckets have changed hands: how they are distributed is to be looked at."""
        self._balanced_among = None

    def silent_s(self, now_s: float, node: str) -> float:
        """How long this leader has watched the node without a renewal."""
        seen = self._sightings.get(node)
        return 0.0 if seen is None else now_s - seen.seen_s

    def _expire_the_dead(self, now_s: float, now_ms: int, live: Sequence[Session]) -> list[Duty]:
        return [
            _expire(now_ms, session.node, session.incarnation, session.renewal)
            for session in live
            if self.silent_s(now_s, session.node) >= self._settings.session_ttl_s
        ]

    def _suspect_the_silent(self, now_s: float, now_ms: int, live: Sequence[Session]) -> list[Duty]:
        return [
            _suspect(now_ms, session)
            for session in live
            if not session.suspect and self.silent_s(now_s, session.node) >= self._settings.suspect_after_s
        ]

    def _reap_the_ended(self, now_ms: int, view: DutiesView) -> list[Duty]:
        """An ended session may have had more claims than one command gives back."""
        renewals = {(session.node, session.incarnation): session.renewal for session in view.sessions()}
        return [
            _expire(now_ms, node, incarnation, renewals.get((node, incarnation), 0))
            for node, incarnation in view.ended_sessions()
        ]

    def _assign(self, now_s: float, now_ms: int, live: Sequence[Session], view: DutiesView) -> list[Duty]:
        takers = [session.node for session in live if session.takes_buckets and not session.draining]
        nodes = [node for node in takers if self._is_well(now_s, node)]
        if nodes == self._balanced_among and now_s < self._balanced_until_s:
            return []
        moves = plan_moves(view.bucket_owners(), nodes)
        if not moves:
            self._balanced_among, self._balanced_until_s = nodes, now_s + BALANCED_AGAIN_AFTER_S
            return []
        return [Duty(name=("assign", "", 0), command=AssignBuckets(now_ms=now_ms, moves=moves))]

    def _is_well(self, now_s: float, node: str) -> bool:
        """Whether it is heard, and its clock is right. That the others' readings are older must not look like a wrong
        clock: after an outage the first node that renews is far ahead of them."""
        off_since_s = self._off_since_s.get(node, now_s)
        return max(self.silent_s(now_s, node), now_s - off_since_s) < self._settings.suspect_after_s

    def _claim(self, name: DutyName, now_s: float) -> bool:
        """One proposal of a duty at a time: its effect shows in the view only after its commit."""
        if now_s < self._proposed.get(name, float("-inf")) + DUTY_AGAIN_AFTER_S:
            return False
        self._proposed[name] = now_s
        return True


def _suspect(now_ms: int, session: Session) -> Duty:
    command = SuspectSession(now_ms=now_ms, node=session.node, incarnation=session.incarnation, renewal=session.renewal)
    return Duty(name=("suspect", session.node, session.incarnation), command=command)


def _expire(now_ms: int, node: str, incarnation: int, renewal: int) -> Duty:
    command = ExpireSession(now_ms=now_ms, node=node, incarnation=incarnation, renewal=renewal)
    return Duty(name=("expire", node, incarnation), command=command)

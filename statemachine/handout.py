"""Who runs what: waiting runs go to sessions with room.

Once an apply, after its commands, since each may have freed or filled something and time has gone on: runs that are due
first, into due slots; runs ahead of their time only while nothing due waits, into ahead room. By priority; within one,
the teams take turns; within a team, whoever has waited longest. (Quotas, weights and tags will be judged in
`_node_for`; a run that waited five minutes will rise a class.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from statemachine.commands import RunClaimed
from statemachine.keys import AFTER_SEPARATOR, SEPARATOR, split_waiting_key
from statemachine.lifecycle import change
from statemachine.limits import HANDOUT_MAX
from statemachine.records import Run
from statemachine.supersede import is_superseded, supersede
from statemachine.transitions import Move
from statemachine.waiting import PRIORITIES
from statemachine.work import Seat, Work


def hand_out(work: Work) -> None:
    """Hand waiting runs to sessions with room, at most HANDOUT_MAX in one apply."""
    if not work.waiting or not any(_takes_claims(work, seat) for seat in work.seats.values()):
        return
    round_ = _HandOut(work)
    if round_.serve(ahead=False):
        round_.serve(ahead=True)


def _takes_claims(work: Work, seat: Seat) -> bool:
    """A node whose clock is off would start its runs at the wrong time."""
    return seat.takes_claims and not work.is_off(seat.wall_ms)


class _HandOut:
    """One round: `_room` is what each node can still take in the current pass."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._left = HANDOUT_MAX
        self._room: dict[str, int] = {}

    def serve(self, *, ahead: bool) -> bool:
        """One pass over the classes. False: it stopped with eligible runs still waiting."""
        self._room = {
            node: seat.session.ahead - seat.held_ahead if ahead else seat.session.slots - seat.held_due
            for node, seat in self._work.seats.items()
            if _takes_claims(self._work, seat)
        }
        if ahead and not any(room > 0 for room in self._room.values()):
            return False
        return all(self._serve_class(priority, ahead) for priority in reversed(range(PRIORITIES)))

    def _serve_class(self, priority: int, ahead: bool) -> bool:
        """Let the teams of a class take turns, beginning after the one that was served last."""
        if not self._work.waiting.depth(priority):
            return True
        unseen = _teams_waiting(self._work, priority)
        lanes: deque[str] = deque()
        while True:
            team = next(unseen, None)
            if team is None:
                if not lanes:
                    return True
                team = lanes.popleft()
            served = self._serve_team(priority, team, ahead)
            if served is None:
                return False
            if served:
                lanes.append(team)

    def _serve_team(self, priority: int, team: str, ahead: bool) -> bool | None:
        """Hand out the team's first run. False: it has none (that is due). None: no room or no time is left."""
        while (run := self._first_run(priority, team, ahead)) is not None:
            if self._left == 0:
                return None
            self._left -= 1
            if is_superseded(self._work, run):
                supersede(self._work, run)
                continue
            node = self._node_for(run)
            if node is None:
                return None
            self._room[node] -= 1
            claim(self._work, run, node)
            self._work.set_served(priority, team)
            return True
        return False

    def _first_run(self, priority: int, team: str, ahead: bool) -> Run | None:
        prefix = bytes((9 - priority,)) + team.encode() + SEPARATOR
        key = self._work.waiting.first_from(prefix)
        if key is None or not key.startswith(prefix):
            return None
        _, release_ms, run_id = split_waiting_key(key)
        if release_ms > self._work.now_ms and not ahead:
            return None
        run = self._work.run(run_id)
        assert run is not None, "a waiting run must exist"
        return run

    def _node_for(self, run: Run) -> str | None:
        """The owner's own session first, else the one with most room; after a failure rather another node."""
        owner = self._work.owner_of(run.job_id)
        last = run.attempts[-1].node if run.attempts else None
        if owner is not None and owner != last and self._room.get(owner, 0) > 0:
            return owner
        return self._roomiest(without=last) or self._roomiest(without=None)

    def _roomiest(self, *, without: str | None) -> str | None:
        best, most = None, 0
        for node, room in self._room.items():
            if room > most and node != without:
                best, most = node, room
        return best


def claim(work: Work, run: Run, node: str) -> None:
    """Give the run to the node's session, under the next fencing token."""
    session = work.seats[node].session
    claimed = change(
        work,
        run,
        Move.CLAIM,
        node=node,
        session=session.incarnation,
        token=run.token + 1,
        ahead=run.release_ms > work.now_ms,
        claimed_ms=work.now_ms,
    )
    work.emit(node, claim_event(claimed))


def claim_event(run: Run) -> RunClaimed:
    """What the holder of a run is told; the same as when it was handed out, for as long as the claim lasts."""
    assert run.session is not None
    return RunClaimed(
        run_id=run.run_id,
        job_id=run.job_id,
        job_version=run.job_version,
        session=run.session,
        token=run.token,
        attempt=run.attempt,
        attempts_max=run.attempts_max,
        priority=run.priority,
        due_ms=run.due_ms,
        release_ms=run.release_ms,
    )


def _teams_waiting(work: Work, priority: int) -> Iterator[str]:
    """The teams with waiting runs, each once, beginning after the one served last; found one seek at a time."""
    class_ = bytes((9 - priority,))
    last = work.served(priority)
    start = class_ if last is None else class_ + last.encode() + AFTER_SEPARATOR
    yield from _teams_between(work, start, bytes((10 - priority,)))
    if last is not None:
        yield from _teams_between(work, class_, start)


def _teams_between(work: Work, start: bytes, end: bytes) -> Iterator[str]:
    key = work.waiting.first_from(start)
    while key is not None and key < end:
        team = split_waiting_key(key)[0]
        yield team
        key = work.waiting.first_from(key[:1] + team.encode() + AFTER_SEPARATOR)

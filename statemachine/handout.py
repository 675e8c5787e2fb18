"""Who runs what: waiting runs go to sessions with room.

Once an apply, after its commands, since each may have freed or filled something and time has gone on: runs that are due
first, into due slots; then runs ahead of their time, into ahead room, as far as nothing due waits for want of room. By
class; within one the teams take turns by weight (turns.py), as far as their quotas allow; within a team, whoever has
waited longest. A need that no session has room for (lanes.py, rooms.py) waits, and keeps nobody else waiting.
"""

from __future__ import annotations

from collections import deque

from statemachine.commands import RunClaimed
from statemachine.deadlines import end_by_fields, is_late_to_begin
from statemachine.keys import SEPARATOR, U64
from statemachine.lanes import CLASSES
from statemachine.lifecycle import change, skip
from statemachine.limits import HANDOUT_MAX
from statemachine.records import Run, SkipReason
from statemachine.rooms import Rooms, takes_claims
from statemachine.supersede import is_superseded, supersede
from statemachine.transitions import Move
from statemachine.turns import needs_in, teams_in_turn
from statemachine.work import Turn, Work


def hand_out(work: Work) -> None:
    """Hand waiting runs to sessions with room, at most HANDOUT_MAX in one apply."""
    if not work.waiting or not any(takes_claims(work, seat) for seat in work.seats.values()):
        return
    short: set[bytes] = set()
    due = _Pass(work, HANDOUT_MAX, short, ahead=False)
    if due.serve() and (due.rooms or not short):
        _Pass(work, due.left, short, ahead=True).serve()


class _Pass:
    """One pass over the classes. `closed` are needs without room: those of `short` from the beginning, since what is
    due waits for it; `left` is how many runs may still be looked at in this apply."""

    def __init__(self, work: Work, left: int, short: set[bytes], *, ahead: bool) -> None:
        self._work = work
        self._ahead = ahead
        self._closed = short
        self.left = left
        self.rooms = Rooms(work, ahead=ahead)

    def serve(self) -> bool:
        """False: it stopped with eligible runs still waiting."""
        if self._ahead and not self.rooms:
            return False
        return all(self._serve_class(class_) for class_ in range(CLASSES))

    def _serve_class(self, number: int) -> bool:
        """Let the teams of a class take turns."""
        if not self._work.waiting.may_have(number):
            return True
        class_ = bytes((number,))
        needs = needs_in(self._work.waiting, class_)
        unseen = teams_in_turn(self._work.waiting, class_, needs, self._closed, self._work.turn(number))
        ring: deque[bytes] = deque()
        while True:
            team = next(unseen, None)
            if team is None:
                if not ring:
                    return True
                team = ring.popleft()
            served = self._serve_turn(number, needs, team)
            if served is None:
                return False
            if served:
                ring.append(team)

    def _serve_turn(self, number: int, needs: list[bytes], team: bytes) -> bool | None:
        """Hand out what the team's turn allows. False: it has nothing more that could go. None: no room or no time is
        left."""
        name, turn = team.decode(), self._work.turn(number)
        left = turn.left if turn is not None and turn.team == team and turn.left else self._weight(name)
        prefixes = [(need, bytes((number,)) + need + team + SEPARATOR) for need in needs]
        while left:
            found = None if self._is_full(name) else self._first_run(prefixes)
            if found is None:
                return False
            need, run = found
            if self.left == 0:
                return None
            self.left -= 1
            if is_superseded(self._work, run):
                supersede(self._work, run)
                continue
            if is_late_to_begin(self._work, run):
                skip(self._work, run, SkipReason.DEADLINE.value)
                continue
            node = self.rooms.node_for(need, run)
            if node is not None:
                left -= 1
                self._claim(run, need, node)
                self._work.set_turn(number, Turn(team, left))
            elif self.rooms:
                self._closed.add(need)
            else:
                return None
        return True

    def _claim(self, run: Run, need: bytes, node: str) -> None:
        self.rooms.take(node, need)
        claim(self._work, run, node)

    def _first_run(self, prefixes: list[tuple[bytes, bytes]]) -> tuple[bytes, Run] | None:
        """The run of the team that has waited longest, of those whose need is not closed."""
        first, need_of_first = None, b""
        for need, prefix in prefixes:
            key = None if need in self._closed else self._work.waiting.first_from(prefix)
            if key is None or not key.startswith(prefix):
                continue
            place = key[len(prefix) :]
            if first is None or place < first:
                first, need_of_first = place, need
        if first is None or (not self._ahead and U64.unpack_from(first)[0] > self._work.now_ms):
            return None
        run = self._work.run(first[U64.size :].decode())
        assert run is not None, "a waiting run must exist"
        return need_of_first, run

    def _weight(self, team: str) -> int:
        record = self._work.team_record(team)
        return 1 if record is None else record.weight

    def _is_full(self, team: str) -> bool:
        """Whether the team's quota is used up (I7). Ahead of their time runs get half of it at most: a run that is due
        must not wait for one that only will be."""
        record = self._work.team_record(team)
        if record is None or record.max_concurrent is None:
            return False
        use = self._work.usage.of(team)
        if use.held >= record.max_concurrent:
            return True
        return self._ahead and use.held_ahead >= record.max_concurrent // 2


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
        **end_by_fields(work, run),
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
        end_by_ms=run.end_by_ms,
    )

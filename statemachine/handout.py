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
from statemachine.keys import LANE_SLOW, SEPARATOR, U64
from statemachine.lanes import CLASSES, lane_now
from statemachine.lifecycle import change, move_lane, skip
from statemachine.limits import FULL_TEAMS_MAX, HANDOUT_MAX
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
        self._are_any_slow = work.targets.has_any()

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
        ring: deque[_Waiting] = deque()
        passed_over = 0
        while True:
            team = next(unseen, None) if passed_over < FULL_TEAMS_MAX else None
            if team is not None:
                waiting = _Waiting(self._work, class_, needs, team)
            elif ring:
                waiting = ring.popleft()
            else:
                return True
            served = self._serve_turn(number, waiting, alone=team is None and not ring)
            if served is None:
                return False
            if served:
                ring.append(waiting)
            elif waiting.is_full(ahead=self._ahead):
                passed_over += 1
                if passed_over == FULL_TEAMS_MAX:
                    self._work.set_turn(number, Turn(waiting.team, 0))  # the next apply goes on from there

    def _serve_turn(self, number: int, waiting: _Waiting, *, alone: bool) -> bool | None:
        """Hand out what the team's turn allows; turn after turn, if it is alone. False: it has nothing more that could
        go. None: no room or no time is left."""
        turn = self._work.turn(number)
        goes_on = turn is not None and turn.team == waiting.team and turn.left > 0
        allowed = turn.left if turn is not None and goes_on else waiting.weight
        served: bool | None = True
        given = 0
        while (alone or given < allowed) and (served := self._serve_one(waiting)):
            given += 1
        if given:
            left = allowed - given if given <= allowed else (allowed - given) % waiting.weight
            self._work.set_turn(number, Turn(waiting.team, left))
        return served

    def _serve_one(self, waiting: _Waiting) -> bool | None:
        """Hand out the team's next run. False, None: as of `_serve_turn`."""
        work, rooms, closed = self._work, self.rooms, self._closed
        while (found := waiting.first_run(closed, ahead=self._ahead)) is not None:
            need, run = found
            if self.left == 0:
                return None
            self.left -= 1
            if is_superseded(work, run):
                supersede(work, run)
            elif is_late_to_begin(work, run):
                skip(work, run, SkipReason.DEADLINE.value)
            elif (need[0] & LANE_SLOW or self._are_any_slow) and waiting.moves(run):
                pass
            elif (node := rooms.node_for(need, run)) is not None:
                rooms.take(node, need)
                claim(work, run, node)
                return True
            elif rooms:
                closed.add(need)
            else:
                return None
        return False


class _Waiting:
    """What waits of one team in one class; `needs` are those of the class, and may come to be more."""

    __slots__ = ("_class", "_most", "_needs", "_prefixes", "_use", "_work", "team", "weight")

    def __init__(self, work: Work, class_: bytes, needs: list[bytes], team: bytes) -> None:
        name = team.decode()
        record = work.team_record(name)
        self.team = team
        self.weight = 1 if record is None else record.weight
        self._work = work
        self._class = class_
        self._needs = needs
        self._most = None if record is None else record.max_concurrent
        self._use = work.usage[name]
        self._prefixes: list[tuple[bytes, bytes]] = []

    def first_run(self, closed: set[bytes], *, ahead: bool) -> tuple[bytes, Run] | None:
        """The run that has waited longest, of those whose need is not closed; None also if the quota is used up."""
        if self.is_full(ahead=ahead):
            return None
        if len(self._prefixes) != len(self._needs):
            self._prefixes = [(need, self._class + need + self.team + SEPARATOR) for need in self._needs]
        first, need_of_first = None, b""
        for need, prefix in self._prefixes:
            key = None if need in closed else self._work.waiting.first_from(prefix)
            if key is not None and key.startswith(prefix):
                place = key[len(prefix) :]
                if first is None or place < first:
                    first, need_of_first = place, need
        if first is None or (not ahead and U64.unpack_from(first)[0] > self._work.now_ms):
            return None
        run = self._work.run(first[U64.size :].decode())
        assert run is not None, "a waiting run must exist"
        return need_of_first, run

    def moves(self, run: Run) -> bool:
        """Whether the run belongs in another lane by now; then it waits there."""
        lane = lane_now(self._work, run)
        if lane == run.lane:
            return False
        move_lane(self._work, run, lane)
        if lane[1:] not in self._needs:
            self._needs.append(lane[1:])
        return True

    def is_full(self, *, ahead: bool) -> bool:
        """Whether the team's quota is used up (I7). Ahead of their time runs get half of it at most: a run that is due
        must not wait for one that only will be."""
        most = self._most
        if most is None:
            return False
        return self._use.held >= most or (ahead and self._use.held_ahead >= most // 2)


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

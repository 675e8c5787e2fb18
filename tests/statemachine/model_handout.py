"""How the model hands runs out: it looks at every run that waits, and at every claim, for each single run."""

from __future__ import annotations

from typing import Any

from statemachine import commands as c
from statemachine.records import Run, RunState, Session
from tests.statemachine.model_state import HELD, SECOND, ModelState

Need = tuple[str, frozenset[tuple[str, str]], int | None]
"""The kind of a run's target, the tags that it wants, and the group of slow targets that it is in."""


class ModelHandOut(ModelState):
    """By class, by turns weighted among teams within their quotas, by time; as far as sessions have room for what a run
    needs."""

    def hand_out(self) -> None:
        """Due runs into slots; then runs ahead of their time into the room for those, but none of a need of which
        something due waits, and none at all while every slot is taken and something due waits."""
        if not any(self.takes_claims(session) for session in self.sessions.values()):
            return
        closed: set[Need] = set()
        while (run := self.next_waiting(closed, due=True)) is not None:
            if not self.hand(run, due=True):
                closed.add(self.need_of(run))
                if not self.has_any_room(due=True):
                    return
        if closed and not self.has_any_room(due=True):
            return
        while self.has_any_room(due=False) and (run := self.next_waiting(closed, due=False)) is not None:
            if not self.hand(run, due=False):
                closed.add(self.need_of(run))

    def next_waiting(self, closed: set[Need], *, due: bool) -> Run | None:
        waiting = [run for run in self.runs.values() if run.state is RunState.QUEUED and not run.parked]
        waiting = [run for run in waiting if not due or run.release_ms <= self.now_ms]
        waiting = [run for run in waiting if self.need_of(run) not in closed and not self.is_full(run.team, due=due)]
        if not waiting:
            return None
        priority = max(self.class_of(run) for run in waiting)
        waiting = [run for run in waiting if self.class_of(run) == priority]
        team = self.whose_turn(priority, sorted({run.team for run in waiting}))
        return min((run for run in waiting if run.team == team), key=lambda run: (run.release_ms, run.run_id))

    def class_of(self, run: Run) -> int:
        return run.priority + (run.run_id in self.aged)

    def age(self) -> None:
        """With each renewal: what has waited five minutes counts one class higher, until it is handed out."""
        for run in self.runs.values():
            if (
                run.state is RunState.QUEUED
                and not run.parked
                and run.priority < 9
                and run.release_ms <= self.now_ms - 300 * SECOND
            ):
                self.aged.add(run.run_id)

    def whose_turn(self, priority: int, teams: list[str]) -> str:
        last, left = self.turns.get(priority, ("", 0))
        if left and last in teams:
            return last
        return next((team for team in teams if team > last), teams[0])

    def take_turn(self, priority: int, team: str) -> None:
        last, left = self.turns.get(priority, ("", 0))
        if last != team or not left:
            left = self.teams[team].weight if team in self.teams else 1
        self.turns[priority] = (team, left - 1)

    def need_of(self, run: Run) -> Need:
        job = self.definition_of(run)
        kind = str(job.target.__struct_config__.tag)
        return kind, frozenset(job.run_on.items()), self.groups.get(run.run_id)

    def has_share(self, group: int) -> bool:
        """A slow target's runs hold a quarter of the slots at most, and all such runs a half."""
        slots = sum(session.slots for session in self.sessions.values() if self.takes_claims(session))
        held = [run for run in self.runs.values() if run.state in HELD and run.lease is None]
        groups = [self.groups[run.run_id] for run in held if self.groups.get(run.run_id) is not None]
        return groups.count(group) < max(1, slots // 4) and len(groups) < max(1, slots // 2)

    def is_full(self, team: str, *, due: bool) -> bool:
        """Ahead of their time a team may hold half of its quota."""
        most = self.teams[team].max_concurrent if team in self.teams else None
        if most is None:
            return False
        held = [run for run in self.runs.values() if run.state in HELD and run.team == team]  # detached ones, too
        ahead = [run for run in held if run.ahead]
        return len(held) >= most or (not due and len(ahead) >= most // 2)

    def hand(self, run: Run, *, due: bool) -> bool:
        job = self.jobs.get(run.job_id)
        if job is None or (job.version != run.job_version and not run.attempts):
            self.supersede(run)
            return True
        if self.is_late(run):
            self.skip(run, "deadline")
            return True
        if self.group_now(run) != self.groups.get(run.run_id):
            self.groups[run.run_id] = self.group_now(run)
            return True
        group = self.groups[run.run_id]
        if group is not None and not self.has_share(group):
            return False
        room = {node: free for node, free in self.room(run, due=due).items() if free > 0}
        if not room:
            return False
        last = run.attempts[-1].node if run.attempts else None
        wanted = {node: free for node, free in room.items() if node != last} or room
        owner, _ = self.owner_of(run.job_id)
        node = owner if owner in wanted and owner != last else min(wanted, key=lambda node: (-wanted[node], node))
        assert node is not None
        self.take_turn(self.class_of(run), run.team)
        self.claim(run, node)
        return True

    def claim(self, run: Run, node: str) -> None:
        incarnation = self.sessions[node].incarnation
        job = self.jobs.get(run.job_id)
        mine = job is not None and job.version == run.job_version
        if job is not None and mine and run.end_by_ms is None and job.run_timeout_s is not None:
            begin_ms = max(run.release_ms, self.now_ms)
            run = self.set(run, end_by_ms=begin_ms + round(job.run_timeout_s * 1000))
        run = self.set(
            run,
            state=RunState.CLAIMED,
            node=node,
            session=incarnation,
            token=run.token + 1,
            ahead=run.release_ms > self.now_ms,
            claimed_ms=self.now_ms,
        )
        told: dict[str, Any] = {
            name: getattr(run, name) for name in c.RunClaimed.__struct_fields__ if name != "session"
        }
        event = c.RunClaimed(session=incarnation, **told)
        self.events.append((node, event))

    def room(self, run: Run, *, due: bool) -> dict[str, int]:
        """What each session that has the run's tags can still take of its kind."""
        kind, tags, _ = self.need_of(run)
        rooms = {}
        for node, session in self.sessions.items():
            if self.takes_claims(session) and tags <= session.tags.items():
                room = self.room_of(session, due=due)
                if kind in session.kind_slots:
                    held = [one for one in self.held_by(session, due=due) if self.need_of(one)[0] == kind]
                    room = min(room, session.kind_slots[kind] - len(held))
                rooms[node] = room
        return rooms

    def has_any_room(self, *, due: bool) -> bool:
        return any(self.room_of(one, due=due) > 0 for one in self.sessions.values() if self.takes_claims(one))

    def room_of(self, session: Session, *, due: bool) -> int:
        return (session.slots if due else session.ahead) - len(self.held_by(session, due=due))

    def held_by(self, session: Session, *, due: bool) -> list[Run]:
        return [run for run in self.claims(session.node, session.incarnation) if run.ahead is not due]

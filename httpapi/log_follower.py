"""Follows the log of a run, whichever nodes its attempts run on.

Without a chosen attempt it begins with the one that is running, or else the last, waits for one that has not begun, and
goes on through retries until the run is final. What runs elsewhere is asked of its node, piece by piece; a node that
falls silent is asked again until the cluster says what became of its attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from httpapi.forwarding import stream_of_peer
from httpapi.log_events import Event, PieceEncoder, Position, piece_of, read_events
from httpapi.problem import PeerUnreachable
from node.interface import (
    FINAL_STATES,
    HoraeError,
    LogElsewhere,
    LogPiece,
    NotFound,
    Run,
    RunState,
    Scheduler,
    Unavailable,
)

POLL_S = 0.5
"""How often it looks what became of an attempt, or whether the next has begun."""


class LogFollower:
    """One reader. `events` may raise a HoraeError before the first event, and none after it."""

    def __init__(self, scheduler: Scheduler, *, node: str, run_id: str, attempt: int | None, start: Position) -> None:
        self._scheduler = scheduler
        self._node = node
        self._run_id = run_id
        self._chosen = attempt
        self._start = start
        self._announced: int | None = None
        self._noticed: str | None = None

    async def events(self) -> AsyncIterator[Event]:
        run = await self._first_look()
        number = self._first_attempt(run)
        offset = self._start.offset if self._start.attempt in (None, number) else 0
        while True:
            encoder = PieceEncoder(number, offset)
            async for event in self._told(run, number, encoder):
                yield event
            following = self._attempt_after(run, number)
            if following is not None:
                number, offset = following, 0
                continue
            if self._is_done(run, number):
                yield _end(run, number)
                return
            offset = encoder.offset
            await asyncio.sleep(POLL_S)
            looked = await self._look_again(run)
            if looked is None:
                yield _end(run, number)
                return
            run = looked

    # --- the run

    async def _first_look(self) -> Run:
        """This node's copy alone may not know yet of a run that another node has answered."""
        try:
            return (await self._scheduler.run(self._run_id))[0]
        except Unavailable:
            return (await self._scheduler.run(self._run_id, consistency="local"))[0]

    async def _look_again(self, run: Run) -> Run | None:
        """What this node knows by now; None when the run was removed. One that cannot be read now can be later."""
        try:
            return (await self._scheduler.run(self._run_id, consistency="local"))[0]
        except NotFound:
            return None
        except HoraeError:
            return run

    def _first_attempt(self, run: Run) -> int:
        number = self._chosen or self._start.attempt
        if number is None:
            running = run.state is RunState.RUNNING or not run.attempts
            return run.attempt if running else run.attempts[-1].attempt
        if number > run.attempt:
            raise NotFound(f"Run {self._run_id} has had no attempt {number}.")
        return number

    def _is_done(self, run: Run, number: int) -> bool:
        """Whether nothing more can come for this reader."""
        return run.state in FINAL_STATES or (self._chosen is not None and _is_over(run, number))

    def _attempt_after(self, run: Run, number: int) -> int | None:
        if self._chosen is not None or not _is_over(run, number):
            return None
        later = [one.attempt for one in run.attempts if one.attempt > number]
        return min(later, default=run.attempt if run.attempt > number else None)

    # --- what is told

    async def _told(self, run: Run, number: int, encoder: PieceEncoder) -> AsyncIterator[Event]:
        """What can be had of the attempt now, and for as long as it runs."""
        over = _is_over(run, number)
        if not over and _holder(run, number) is not None:
            for event in self._announce(run, number):
                yield event
        try:
            async for piece in self._pieces(number, encoder.offset, over):
                for event in (*self._announce(run, number), *encoder.events(piece)):
                    yield event
        except (PeerUnreachable, NotFound) as fault:
            if self._announced is None and run.attempts and self._is_done(run, number):
                raise
            for event in self._notice(fault, expected=isinstance(fault, NotFound) and not (over and run.attempts)):
                yield event
        if over:
            for event in encoder.flush():
                yield event

    def _announce(self, run: Run, number: int) -> list[Event]:
        if self._announced == number:
            return []
        self._announced = number
        return [Event(name="attempt", data={"attempt": number, "node": _holder(run, number)})]

    def _notice(self, fault: HoraeError, *, expected: bool) -> list[Event]:
        """The same trouble is told once; an attempt that has not begun is none."""
        if expected or self._noticed == str(fault):
            return []
        self._noticed = str(fault)
        return [Event(name="notice", data={"detail": str(fault)})]

    # --- the output

    async def _pieces(self, number: int, offset: int, over: bool) -> AsyncIterator[LogPiece]:
        try:
            async for piece in self._scheduler.follow_log(self._run_id, attempt=number, offset=offset):
                yield piece
        except LogElsewhere as elsewhere:
            if elsewhere.node == self._node:
                raise NotFound(str(elsewhere)) from None
            async for piece in self._pieces_of_other(elsewhere.node, number, offset, over):
                yield piece

    async def _pieces_of_other(self, holder: str, number: int, offset: int, over: bool) -> AsyncIterator[LogPiece]:
        """Of its node, or else of the log store, if there is one and the attempt has ended."""
        try:
            async for piece in self._pieces_of_peer(holder, number, offset):
                offset = piece.offset + len(piece.data)
                yield piece
        except PeerUnreachable as unreachable:
            if not over:
                raise
            try:
                stored = self._scheduler.follow_log(self._run_id, attempt=number, offset=offset, archived=True)
                async for piece in stored:
                    yield piece
            except NotFound:
                raise unreachable from None

    async def _pieces_of_peer(self, holder: str, number: int, offset: int) -> AsyncIterator[LogPiece]:
        address = self._scheduler.node_addresses().get(holder)
        if address is None:
            raise PeerUnreachable(f"The log is on node {holder}, which is not part of the cluster right now.")
        chunks = stream_of_peer(
            f"http://{address}/v1/runs/{self._run_id}/log",
            asking=self._node,
            unreachable=f"The log is on node {holder}, which does not answer.",
            params={"attempt": str(number), "follow": "1"},
            headers={"Last-Event-ID": f"{number}:{offset}"},
        )
        try:
            async for event in read_events(chunks):
                if event is not None and event.name == "log":
                    yield piece_of(event)
        except ValueError:
            raise PeerUnreachable(f"The log is on node {holder}, whose answer cannot be read.") from None


async def own_events(scheduler: Scheduler, run_id: str, *, attempt: int, offset: int) -> AsyncIterator[Event]:
    """What another node is told: of one attempt, what this node has of it and nothing else."""
    encoder = PieceEncoder(attempt, offset)
    async for piece in scheduler.follow_log(run_id, attempt=attempt, offset=offset):
        for event in encoder.events(piece):
            yield event
    for event in encoder.flush():
        yield event
    yield Event(name="end", data={"attempt": attempt})


def _is_over(run: Run, number: int) -> bool:
    return run.state in FINAL_STATES or number < run.attempt or any(one.attempt == number for one in run.attempts)


def _holder(run: Run, number: int) -> str | None:
    ended = next((one.node for one in run.attempts if one.attempt == number), None)
    return ended or (run.node if number == run.attempt else None)


def _end(run: Run, number: int) -> Event:
    outcome = next((one.outcome.value for one in run.attempts if one.attempt == number), None)
    data = {"state": run.state.value, "attempt": number, "outcome": outcome, "reason": run.reason}
    return Event(name="end", data=data)

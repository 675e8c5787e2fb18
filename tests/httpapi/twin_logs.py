"""The logs of the Scheduler in memory: what attempts put out, live and kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from node.interface import Attempt, AttemptOutcome, LogElsewhere, LogPiece, NotFound, Run, RunLog, RunState

NO_LOG = RunLog(attempt=1, output=b"")


class TwinLog:
    """What an attempt puts out while it runs."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.ended = False
        self.news = asyncio.Event()

    def write(self, data: bytes, *, ended: bool = False) -> None:
        self.output += data
        self.ended = ended
        self.news.set()


class TwinLogs:
    """Part of the Twin."""

    node: str
    runs_by_id: dict[str, Run]
    logs: dict[tuple[str, int], RunLog]
    stored_logs: dict[tuple[str, int], RunLog]
    """What the log store has."""
    live_logs: dict[tuple[str, int], TwinLog]

    async def run_log(self, run_id: str, *, attempt: int | None = None, archived: bool = False) -> RunLog:
        self._check_alive()
        if archived and (run_id, attempt or 1) not in self.stored_logs:
            raise NotFound("The log store has no such log.")
        if archived:
            return self.stored_logs[run_id, attempt or 1]
        run = self._known_run(run_id)
        nodes = {one.attempt: one.log_node or one.node for one in run.attempts}
        number = attempt or max(nodes, default=run.attempt)
        if run.node is not None:
            nodes.setdefault(run.attempt, run.node)
        if number not in nodes:
            raise NotFound(f"Run {run_id} has had no attempt {number}.")
        if nodes[number] != self.node:
            raise LogElsewhere(f"Run {run_id} was on node {nodes[number]}.", node=nodes[number])
        return self.logs.get((run_id, number), RunLog(attempt=number, output=b""))

    async def follow_log(
        self, run_id: str, *, attempt: int, offset: int = 0, archived: bool = False
    ) -> AsyncIterator[LogPiece]:
        log = await self.run_log(run_id, attempt=attempt, archived=archived)
        if archived:
            if offset < len(log.output):
                yield LogPiece(offset=offset, data=log.output[offset:])
            return
        live = self.live_logs.get((run_id, attempt))
        output = live.output if live is not None else self.logs.get((run_id, attempt), NO_LOG).output
        while True:
            if offset < len(output):
                yield LogPiece(offset=offset, data=bytes(output[offset:]))
                offset = len(output)
            elif live is None or live.ended:
                return
            else:
                live.news.clear()
                await live.news.wait()

    # --- what only tests do

    def start(self, run_id: str) -> TwinLog:
        """The run's attempt runs on this node."""
        run = self.runs_by_id[run_id]
        self.runs_by_id[run_id] = msgspec.structs.replace(run, state=RunState.RUNNING, node=self.node)
        return self.live_logs.setdefault((run_id, run.attempt), TwinLog())

    def fail(self, run_id: str) -> None:
        """The attempt that runs has failed; the next is to come."""
        run = self.runs_by_id[run_id]
        failed = Attempt(attempt=run.attempt, node=self.node, outcome=AttemptOutcome.FAILED, status=500)
        attempts = (*run.attempts, failed)
        self.runs_by_id[run_id] = msgspec.structs.replace(
            run, state=RunState.QUEUED, node=None, attempt=run.attempt + 1, attempts=attempts
        )
        self.live_logs[run_id, run.attempt].write(b"", ended=True)

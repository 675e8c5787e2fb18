"""What targets say of attempts that they complete themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from node.afterwards import seen_afterwards
from node.clock import Clock
from node.completion_values import COMPLETION_TEXT_LENGTH_MAX
from node.interface import Completion, Fenced, Heartbeat, HoraeError, NotFound, Run
from node.reads import Reads
from node.retry import retry_at_ms
from node.runlogs import RunLogs
from statemachine.commands import AnyReply, Complete, LeaseReply
from statemachine.commands import Heartbeat as Beat
from statemachine.limits import INT_MAX
from statemachine.records import AttemptOutcome


class Completions:
    """`propose` sends a command through the log and answers its reply; it raises HoraeErrors, as all of this does."""

    def __init__(
        self,
        *,
        propose: Callable[[Complete | Beat], Awaitable[AnyReply]],
        reads: Reads,
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        self._propose = propose
        self._reads = reads
        self._clock = clock
        self._random = random

    async def complete(self, run_id: str, token: int, completion: Completion, *, log_node: str) -> Run:
        """The run, as it is after that. `log_node` will keep the output, if there is any. Raises NotFound or Fenced."""
        now_ms = self._clock.wall_ms()
        command = Complete(
            now_ms=now_ms,
            run_id=run_id,
            token=_token(token),
            outcome=AttemptOutcome(completion.outcome),
            detail=_cut(completion.detail),
            retry_at_ms=await self._retry_at_ms(run_id, now_ms) if completion.outcome == "failed" else None,
            log_node=None if completion.output is None else log_node,
            log_bytes=None if completion.output is None else len(completion.output),
        )
        _check(await self._propose(command), run_id, token)
        return await seen_afterwards("The attempt is completed", self._run(run_id))

    async def heartbeat(self, run_id: str, token: int, progress: str | None) -> Heartbeat:
        """Raises NotFound or Fenced."""
        command = Beat(now_ms=self._clock.wall_ms(), run_id=run_id, token=_token(token), progress=_cut(progress))
        reply = await self._propose(command)
        _check(reply, run_id, token)
        assert isinstance(reply, LeaseReply)
        return Heartbeat(until_ms=reply.until_ms)

    async def _run(self, run_id: str) -> Run:
        return (await self._reads.run(run_id))[0]

    async def _retry_at_ms(self, run_id: str, now_ms: int) -> int | None:
        """When to try again, by the rules of the definition that made the run; None (at once) if it is not kept."""
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            run = snapshot.run(run_id)
            job = None if run is None else snapshot.job_version(run.job_id, run.job_version)
        if run is None or job is None:
            return None
        return retry_at_ms(job, run.attempt, now_ms=now_ms, retry_after_s=None, random=self._random)


def keep_completion(logs: RunLogs, run: Run, token: int, output: bytes, node: str) -> None:
    """Keep what the target of an attempt put out. Not if another node does: this is a repeat then."""
    for attempt in run.attempts:
        if (attempt.token, attempt.log_node) == (token, node):
            log = logs.open(run.run_id, attempt.attempt)
            log.write(output)
            logs.close(log)


def _token(token: int) -> int:
    """As a command can carry it; what cannot be a token is nobody's."""
    return min(max(token, 0), INT_MAX)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:COMPLETION_TEXT_LENGTH_MAX]


def _check(reply: AnyReply, run_id: str, token: int) -> None:
    if reply.code in ("unknown_run", "malformed"):
        raise NotFound(f"There is no run {run_id}.")
    if reply.code == "fenced":
        raise Fenced(
            f"Fencing token {token} is of no attempt under way: the run is {reply.detail}. Nothing was changed."
        )
    if reply.code != "ok":
        raise HoraeError(f"The cluster refused the report: {reply.code}.")

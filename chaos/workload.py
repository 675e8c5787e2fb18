"""What clients do while everything fails: create, delete and run jobs through the Scheduler of any node, and write down
what they were told. Knows nothing of the inside."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from chaos.history import Answer, Operation
from node.interface import HoraeError, HttpTarget, JobCreated, JobDraft, NoopTarget, OutcomeUnknown, Run, Scheduler

PERIODS_S = (1, 2, 3, 5)
SCRIPTS = ("quick", "quick", "slow", "hang", "failing", "deadly")
RETRIES_MAX = 4
ANSWER_S = 8.0
"""How long a client waits for an answer."""
AGAIN_S = 0.5


class NodeGone(Exception):
    """The connection was refused, or broke before the answer."""

    def __init__(self, *, definite: bool) -> None:
        super().__init__("connection refused" if definite else "connection lost")
        self.definite = definite


Call = Callable[[Scheduler], Awaitable[Any]]
Reach = Callable[[str, Call], Awaitable[Any]]
"""Call a node by its name; raises NodeGone or a HoraeError."""


class Client:
    """One client: one request at a time, repeated on another node, under the same key, when its fate is unknown."""

    def __init__(
        self, name: str, nodes: tuple[str, ...], reach: Reach, now: Callable[[], float], dice: random.Random
    ) -> None:
        self._name = name
        self._nodes = nodes
        self._reach = reach
        self._now = now
        self._dice = dice
        self._serial = 0
        self.operations: list[Operation] = []
        self.jobs: list[str] = []
        """Ids of jobs that it knows and has not deleted."""

    async def create(self) -> None:
        draft, key = self.draft(), self._key()
        await self._repeat("create", lambda scheduler: scheduler.create_job(draft, idempotency_key=key))

    async def delete(self) -> None:
        if self.jobs:
            job_id = self.jobs.pop(self._dice.randrange(len(self.jobs)))
            await self._repeat("delete", lambda scheduler: scheduler.delete_job(job_id), subject=job_id)

    async def run_now(self) -> None:
        if self.jobs:
            job_id, key = self._dice.choice(self.jobs), self._key()
            await self._repeat("run_now", lambda scheduler: scheduler.run_now(job_id, idempotency_key=key))

    async def read(self) -> None:
        if self.jobs:
            job_id = self._dice.choice(self.jobs)
            await self._repeat("read", lambda scheduler: scheduler.job(job_id), subject=job_id)

    async def work(self, every_s: float, jobs: int) -> None:
        """Until cancelled: first the jobs, then a mix."""
        for _ in range(jobs):
            await self.create()
        acts = [self.create, self.delete, self.run_now, self.run_now, self.read, self.read]
        while True:
            await asyncio.sleep(self._dice.expovariate(1 / every_s))
            await self._dice.choice(acts)()

    def draft(self) -> JobDraft:
        self._serial += 1
        script = self._dice.choice(SCRIPTS)
        noop = self._dice.random() < 0.4
        return JobDraft(
            name=f"{self._name}-{self._serial}",
            schedule=f"@every {self._dice.choice(PERIODS_S)}s",
            target=NoopTarget() if noop else HttpTarget(url=f"http://sink.example/{script}"),
            timeout_s=4.0,
            max_retries=self._dice.choice([0, 2]),
            backoff_base_s=1.0,
            priority=self._dice.choice([2, 5, 9]),
            overlap_policy=self._dice.choice(["allow", "allow", "skip"]),
            jitter_s=self._dice.choice([0.0, 0.0, 0.7]),
            misfire_policy=self._dice.choice(["skip", "run_once"]),
            misfire_grace_s=self._dice.choice([2.0, 60.0]),
        )

    def _key(self) -> str:
        self._serial += 1
        return f"{self._name}-key-{self._serial}"

    async def _repeat(self, kind: Any, call: Call, subject: str | None = None) -> None:
        """The answer of the whole: once a try's fate was unknown, a later refusal says nothing about it."""
        began_s, unknown = self._now(), False
        for _ in range(RETRIES_MAX):
            node = self._dice.choice(self._nodes)
            try:
                async with asyncio.timeout(ANSWER_S):
                    value = await self._reach(node, call)
            except (TimeoutError, OutcomeUnknown):
                unknown = True
            except NodeGone as gone:
                unknown = unknown or not gone.definite
            except HoraeError as error:
                unknown = unknown or not error.definite
                if error.status not in (429, 503):
                    self._record(kind, node, began_s, "info" if unknown else "fail", subject, detail=str(error))
                    return
            else:
                self._record(kind, node, began_s, "ok", **_learned(value, subject))
                if isinstance(value, JobCreated):
                    self.jobs.append(value.job_id)
                return
            await asyncio.sleep(AGAIN_S)
        self._record(kind, node, began_s, "info" if unknown else "fail", subject)

    def _record(
        self,
        kind: Any,
        node: str,
        began_s: float,
        answer: Answer,
        subject: str | None = None,
        next_ms: int | None = None,
        detail: str = "",
    ) -> None:
        self.operations.append(
            Operation(
                kind=kind,
                node=node,
                invoked_s=began_s,
                ended_s=self._now(),
                answer=answer,
                subject=subject,
                next_ms=next_ms,
                detail=detail,
            )
        )


def _learned(value: object, subject: str | None) -> Mapping[str, Any]:
    if isinstance(value, JobCreated):
        return {"subject": value.job_id, "next_ms": value.next_run_ms}
    if isinstance(value, Run):
        return {"subject": value.run_id}
    return {"subject": subject}

"""What clients do while everything fails: create, delete and run jobs through the Scheduler of any node, and write down
what they were told. Knows nothing of the inside."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from chaos.history import Operation, OperationKind, Seen
from chaos.workload_drafts import LIMITED_TEAM, Drafts
from node.interface import (
    FINAL_STATES,
    LIST_LIMIT_MAX,
    Consistency,
    HoraeError,
    JobChanged,
    JobCreated,
    JobDraft,
    JobPage,
    JobView,
    OutcomeUnknown,
    Read,
    ResumeFrom,
    Run,
    RunCancelled,
    RunState,
    Scheduler,
    TeamDraft,
)

RETRIES_MAX = 4
ANSWER_S = 8.0
"""How long a client waits for an answer."""
AGAIN_S = 0.5
LIFTS_MAX = 5
"""How often a client asks that a quota be lifted before it goes home."""
SINCE: tuple[ResumeFrom, ...] = ("now", "paused_at")
MISUSED = 0.5
"""Part of the keys that are used again, for something else."""
TRY_AGAIN = (429, 503)
NOT_FOUND = 404
READS = ("read", "read_run", "list")
UNFINISHED = tuple(state for state in RunState if state not in FINAL_STATES)
HOW: Mapping[bool, Consistency] = {True: "local", False: "linearizable"}
LOCAL_READS = 0.3
LISTS = 0.5
"""Part of the reads of a client that only reads."""
RUNS_READ_MAX = 5
"""So many of the last runs that it made does a client look at."""
MADE_KEPT = 20
"""Of so many of its last jobs it still has the key."""
FOUND_NOTHING = Seen(applied_index=None, stale_s=0.0, jobs={})


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
        self,
        name: str,
        nodes: tuple[str, ...],
        reach: Reach,
        now: Callable[[], float],
        dice: random.Random,
        epoch_ms: int,
    ) -> None:
        """`epoch_ms`: the right unix time when `now` was 0."""
        self._name = name
        self._nodes = nodes
        self._reach = reach
        self._now = now
        self._dice = dice
        self._drafts = Drafts(name, dice, epoch_ms)
        self._serial = 0
        self._under_way: Operation | None = None
        self._leaving = False
        self._answered: list[Operation] = []
        self._made: deque[tuple[JobDraft, str, str]] = deque(maxlen=MADE_KEPT)
        """What it was told that it had made: draft, key, id."""
        self.jobs: list[str] = []
        """Ids of jobs that it knows and has not deleted."""
        self.runs: list[str] = []
        """Ids of runs that it made."""

    @property
    def operations(self) -> list[Operation]:
        """What it asked and was told; also what it asked and still waits for."""
        return [*self._answered, *([] if self._under_way is None else [self._under_way])]

    async def create(self) -> None:
        draft, key = self.draft(), self._key()
        made = await self._repeat(
            "create", lambda scheduler: scheduler.create_job(draft, idempotency_key=key), name=draft.name
        )
        if made is not None:
            self.jobs.append(made.job_id)
            self._made.append((draft, key, made.job_id))

    async def use_a_key_again(self) -> None:
        """For what it was used for, which must answer the same; or for something else, which must be refused."""
        if self._made:
            draft, key, job_id = self._dice.choice(self._made)
            misused = self._dice.random() < MISUSED
            asked = self._drafts.other(draft) if misused else draft
            call = lambda scheduler: scheduler.create_job(asked, idempotency_key=key)  # noqa: E731
            await self._repeat("misuse" if misused else "repeat", call, earlier=job_id)

    async def ask_too_much(self) -> None:
        self._serial += 1
        draft = self._drafts.bad(self._serial, self._now())
        await self._repeat("excess", lambda scheduler: scheduler.create_job(draft))

    async def set_quota(self, draft: TeamDraft | None = None) -> None:
        quota = self._drafts.quota() if draft is None else draft
        await self._repeat("quota", lambda scheduler: scheduler.put_team(LIMITED_TEAM, quota), subject=LIMITED_TEAM)

    async def delete(self) -> None:
        if self.jobs:
            job_id = self.jobs.pop(self._dice.randrange(len(self.jobs)))
            await self._repeat("delete", lambda scheduler: scheduler.delete_job(job_id), subject=job_id)

    async def pause(self) -> None:
        if self.jobs:
            job_id, key = self._dice.choice(self.jobs), self._key()
            call = lambda scheduler: scheduler.pause_job(job_id, reason="chaos", idempotency_key=key)  # noqa: E731
            await self._repeat("pause", call, subject=job_id)

    async def resume(self) -> None:
        if self.jobs:
            job_id, key, since = self._dice.choice(self.jobs), self._key(), self._dice.choice(SINCE)
            call = lambda scheduler: scheduler.resume_job(job_id, since=since, idempotency_key=key)  # noqa: E731
            await self._repeat("resume", call, subject=job_id)

    async def update(self) -> None:
        """Of one of its own jobs, something that does not move its ticks."""
        known = [(draft, job_id) for draft, _, job_id in self._made if job_id in self.jobs]
        if known:
            draft, job_id = self._dice.choice(known)
            changed = self._drafts.changed(draft)
            call = lambda scheduler: scheduler.update_job(job_id, changed)  # noqa: E731
            await self._repeat("update", call, subject=job_id)

    async def run_now(self) -> None:
        if self.jobs:
            job_id, key = self._dice.choice(self.jobs), self._key()
            await self._repeat("run_now", lambda scheduler: scheduler.run_now(job_id, idempotency_key=key))

    async def cancel(self) -> None:
        """A run of one of its jobs that is not over: one that is to come, waits, or is under way."""
        if not self.jobs:
            return
        job_id = self._dice.choice(self.jobs)
        page = await self._repeat("list_runs", lambda scheduler: scheduler.runs_of_job(job_id, states=UNFINISHED))
        if page is not None and page.items:
            run_id = self._dice.choice(page.items).run_id
            call = lambda scheduler: scheduler.cancel_run(run_id, reason="chaos")  # noqa: E731
            await self._repeat("cancel", call, subject=run_id)

    async def read(self) -> None:
        if self.jobs:
            job_id, local = self._dice.choice(self.jobs), self._dice.random() < LOCAL_READS
            how = HOW[local]
            await self._repeat(
                "read", lambda scheduler: scheduler.job(job_id, consistency=how), subject=job_id, local=local
            )

    async def read_run(self) -> None:
        if self.runs:
            run_id = self._dice.choice(self.runs[-RUNS_READ_MAX:])
            await self._repeat("read_run", lambda scheduler: scheduler.run(run_id), subject=run_id)

    async def list_jobs(self) -> JobPage | None:
        """None: no answer."""
        local = self._dice.random() < LOCAL_READS
        how = HOW[local]
        page: JobPage | None = await self._repeat(
            "list", lambda scheduler: scheduler.jobs(limit=LIST_LIMIT_MAX, consistency=how), local=local
        )
        return page

    async def work(self, every_s: float, jobs: int) -> None:
        """Until it is to go home: first the jobs, then a mix."""
        for _ in range(jobs):
            if not self._leaving:
                await self.create()
        acts = [
            *(self.create, self.create, self.delete, self.run_now, self.run_now),
            *(self.read, self.read, self.read_run, self.list_jobs),
            *(self.use_a_key_again, self.ask_too_much, self.set_quota, self.cancel, self.cancel),
            *(self.pause, self.resume, self.resume, self.update),
        ]
        while not self._leaving:
            await self._dice.choice(acts)()
            await asyncio.sleep(self._dice.expovariate(1 / every_s))
        await self._lift_quota()

    async def _lift_quota(self) -> None:
        """What waits for it is to be done by the end."""
        for _ in range(LIFTS_MAX):
            await self.set_quota(TeamDraft())
            if self._answered[-1].answer == "ok":
                return

    async def look(self, every_s: float) -> None:
        """Until it is to go home: read what others make and delete."""
        while not self._leaving:
            if self._dice.random() < LISTS:
                page = await self.list_jobs()
                self.jobs = self.jobs if page is None else [view.job.job_id for view in page.items]
            else:
                await self.read()
            await asyncio.sleep(self._dice.expovariate(1 / every_s))

    def go_home(self) -> None:
        """Ask nothing more; what is under way is waited for."""
        self._leaving = True

    def draft(self) -> JobDraft:
        self._serial += 1
        return self._drafts.good(self._serial, self._now())

    def _key(self) -> str:
        self._serial += 1
        return f"{self._name}-key-{self._serial}"

    async def _repeat(
        self,
        kind: OperationKind,
        call: Call,
        subject: str | None = None,
        name: str | None = None,
        local: bool = False,
        earlier: str | None = None,
    ) -> Any:
        """What was answered in the end, or None. Of the whole: once a try's fate was unknown, a later refusal says
        nothing about it."""
        operation = Operation(
            kind=kind,
            node="",
            invoked_s=self._now(),
            ended_s=float("inf"),
            answer="info",
            client=self._name,
            subject=subject,
            name=name,
            local=local,
            earlier=earlier,
        )
        self._under_way = operation
        unknown = False
        for _ in range(RETRIES_MAX):
            node = self._dice.choice(self._nodes)
            # Each try of a read is a read of its own; the others leave nothing behind.
            invoked_s = self._now() if kind in READS else operation.invoked_s
            operation = self._under_way = replace(operation, node=node, invoked_s=invoked_s)
            try:
                async with asyncio.timeout(ANSWER_S):
                    value = await self._reach(node, call)
            except (TimeoutError, OutcomeUnknown):
                unknown = True
            except NodeGone as gone:
                unknown = unknown or not gone.definite
            except HoraeError as error:
                unknown = unknown or not error.definite
                if error.status not in TRY_AGAIN:
                    self._refused(operation, error, unknown)
                    return None
            else:
                self._succeeded(operation, value)
                return value
            await asyncio.sleep(AGAIN_S)
        self._record(operation, answer="info" if unknown else "fail")
        return None

    def _succeeded(self, operation: Operation, value: object) -> None:
        self._record(operation, answer="ok", **_learned(value))
        if isinstance(value, Run):
            self.runs.append(value.run_id)

    def _refused(self, operation: Operation, error: HoraeError, unknown: bool) -> None:
        """That there is no such thing is the answer of a read. A local one does not say then how old it is."""
        if operation.kind in READS and error.status == NOT_FOUND:
            self._record(operation, answer="ok", seen=None if operation.local else FOUND_NOTHING)
            return
        self._record(operation, answer="info" if unknown else "fail", refusal=error.status, detail=str(error))

    def _record(self, operation: Operation, **outcome: Any) -> None:
        self._answered.append(replace(operation, ended_s=self._now(), **outcome))
        self._under_way = None


def _learned(value: object) -> Mapping[str, Any]:
    match value:
        case JobCreated():
            return {"subject": value.job_id, "next_ms": value.next_run_ms}
        case Run():
            return {"subject": value.run_id}
        case RunCancelled():
            return {"effective": value.effective}
        case bool():
            return {"effective": value}
        case JobChanged():
            return {"version": value.view.job.version, "effective": value.effective}
        case JobPage():
            return {"seen": _seen(value.read, *value.items, complete=value.next_cursor is None)}
        case (JobView() as view, Read() as read):
            return {"seen": _seen(read, view)}
        case (Run() as run, Read() as read):
            return {"seen": replace(_seen(read), run=(run.state.value, run.token))}
    return {}


def _seen(read: Read, *views: JobView, complete: bool = True) -> Seen:
    jobs = {view.job.job_id: (view.job.name, view.job.version) for view in views}
    return Seen(applied_index=read.applied_index, stale_s=read.stale_s, jobs=jobs, complete=complete)

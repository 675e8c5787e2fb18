"""The state machine once more, naively, in dicts: what the LMDB one is compared with.

No index, no cache, no transition table: every question is answered by looking at everything. Small on purpose, and
written from the design, not from the code. It leaves out proposals and limits, which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.records import Attempt, AttemptOutcome, Job, Run, RunKind, RunState, Session
from tests.statemachine.model_backfills import ModelBackfills
from tests.statemachine.model_buckets import ModelBuckets
from tests.statemachine.model_completion import CompletionModel
from tests.statemachine.model_jobs import ModelJobs
from tests.statemachine.model_outbox import OutboxModel
from tests.statemachine.model_overlap import OverlapModel
from tests.statemachine.model_retention import RetentionModel
from tests.statemachine.model_state import HELD, SECOND
from tests.statemachine.model_teams import ModelTeams

FREE: dict[str, Any] = {"node": None, "session": None, "ahead": False, "claimed_ms": None, "started_ms": None}


class Model(
    ModelJobs, ModelBackfills, CompletionModel, OverlapModel, ModelTeams, ModelBuckets, OutboxModel, RetentionModel
):
    """Commands, as handlers named after their tags."""

    def apply(self, commands: Sequence[c.Command], node: str = "n1") -> tuple[list[c.Reply], list[tuple[str, Any]]]:
        """What one proposal of these commands, by this node, comes to."""
        self.events, self.heard_ms, self.clock_before_ms = [], 0, self.clock_ms
        self.history.begin_apply()
        replies = []
        for command in commands:
            self.hear(node, command.now_ms)
            handler: Callable[[Any], c.Reply] = getattr(self, command.__struct_config__.tag)
            replies.append(handler(command))
            self.promote()
        self.hand_out()
        self.promote()
        return replies, self.events

    # --- ticks

    def fire(self, command: c.Fire) -> c.Reply:
        return c.FireReply(codes=tuple(self.fire_item(command.node, item) for item in command.items))

    def fire_item(self, node: str, item: c.FireItem) -> str:
        owner, epoch = self.owner_of(item.job_id)
        job = self.jobs.get(item.job_id)
        if owner != node or epoch != item.epoch:
            return "stale_epoch"
        if job is not None and job.version != item.version:
            return "stale_version"
        if any(tick.due_ms > self.clock_ms + 90 * SECOND for tick in item.runs):
            return "clock_off"
        for ticks in item.skips:
            if ticks.until_ms > self.clock_ms + (0 if ticks.reason == "misfire" else 90 * SECOND):
                return "clock_off"
        if job is None or self.due.get(item.job_id) != item.expected_ms:
            return "not_due"
        del self.due[job.job_id]
        if item.next_ms is not None:
            self.due[job.job_id] = item.next_ms
        if job.max_runs is not None:
            item = self.limited(job, item)
        for tick in item.runs:
            self.fire_run(job, tick)
        for ticks in item.skips:
            self.fire_skip(job, ticks)
        return "ok"

    def limited(self, job: Job, item: c.FireItem) -> c.FireItem:
        """What of the item is within the job's max_runs; the last run ends the job."""
        left = max(0, (job.max_runs or 0) - self.made.get(job.job_id, 0))
        new = [tick.due_ms for tick in item.runs if f"{tick.due_ms:012x}-{job.job_id}" not in self.runs]
        self.made[job.job_id] = self.made.get(job.job_id, 0) + len(new[:left])
        if len(new) < left:
            return item
        self.due.pop(job.job_id, None)
        self.jobs[job.job_id] = self.versions[job.job_id, job.version] = replace(job, first_due_ms=None)
        end_ms = new[left] if len(new) > left else 2**47
        runs = tuple(tick for tick in item.runs if tick.due_ms < end_ms)
        return replace(item, runs=runs, skips=tuple(ticks for ticks in item.skips if ticks.until_ms < end_ms))

    def fire_run(self, job: Job, tick: c.FireRun) -> None:
        run_id = f"{tick.due_ms:012x}-{job.job_id}"
        before = self.runs.get(run_id)
        self.passed_by[run_id] = job.version
        if before is None:
            before = self.runs[run_id] = self.new_run(job, run_id, RunKind.SCHEDULED, tick.due_ms)
        elif not self.can_be_made_anew(before, job):
            return
        self.make_anew(before, job, tick.release_ms, catch_up=tick.catch_up)
        if not self.is_judged(job) and not tick.catch_up:
            self.set(self.runs[run_id], state=RunState.QUEUED)

    def run_now(self, command: c.RunNow) -> c.Reply:
        job = self.jobs.get(command.job_id)
        if job is None:
            return c.PlainReply(code="unknown_job")
        run_id = f"{command.now_ms:012x}-{job.job_id}-m{command.nonce}"
        if run_id not in self.runs:
            if self.is_off(command.now_ms):
                return c.RunReply(code="clock_off")
            run = self.new_run(job, run_id, RunKind.MANUAL, command.now_ms)
            self.runs[run_id] = replace(
                run,
                args=command.args,
                overlap_policy=command.overlap_policy,
                created_ms=command.now_ms,
                start_by_ms=self.start_by_ms(job, command.now_ms),
            )
            self.judge(self.runs[run_id])
        return c.RunReply(run_id=run_id)

    def release(self, command: c.Release) -> c.Reply:
        run = self.runs.get(command.run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        if run.token != command.token:
            return c.PlainReply(code="fenced")
        if run.lease is not None:
            return self.lapse(run)
        times = {RunState.SCHEDULED: run.release_ms, RunState.RETRYING: run.retry_at_ms}
        if (times.get(run.state) or 0) > self.clock_ms + 15 * SECOND:
            return c.PlainReply(code="clock_off")
        if run.state is RunState.SCHEDULED:
            self.judge(run)
        elif run.state is RunState.RETRYING:
            fields = FREE | {"attempt": run.attempt + 1, "retry_at_ms": None, "finished_ms": None}
            self.set(run, state=RunState.QUEUED, **fields)
        else:
            return c.PlainReply(code="illegal_state", detail=run.state.value)
        return c.PlainReply()

    # --- attempts

    def held(self, run_id: str, token: int, *states: RunState) -> Run | c.Reply:
        run = self.runs.get(run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        ended = run.state in (RunState.DEAD, RunState.CANCELLED)
        lost = ended and bool(run.attempts) and run.attempts[-1].outcome is AttemptOutcome.LOST
        if run.token != token or run.state is RunState.QUEUED or lost:
            self.counts["fenced_writes"] += 1
            return c.PlainReply(code="fenced")
        return run if run.state in states else c.PlainReply(code="illegal_state", detail=run.state.value)

    def start(self, command: c.Start) -> c.Reply:
        run = self.held(command.run_id, command.token, *HELD)
        if isinstance(run, c.Reply):
            return run
        if run.state is RunState.CLAIMED:
            self.set(run, state=RunState.RUNNING, started_ms=command.started_ms)
        return c.PlainReply()

    def finish(self, command: c.Finish) -> c.Reply:
        run = self.held(command.run_id, command.token, *HELD)
        if isinstance(run, c.Reply):
            return run
        job, took_ms = self.jobs.get(run.job_id), command.finished_ms - command.started_ms
        if job is not None and job.version == run.job_version:
            late = took_ms >= max(SECOND, 0.9 * job.timeout_s * SECOND)
            points = {AttemptOutcome.TIMED_OUT: 10, AttemptOutcome.SUCCEEDED: 5 if late else -5}
            self.score(job, points.get(command.outcome, 5 if late else 0))
        run = self.end_attempt(run, command.outcome, command.started_ms, command.finished_ms, command.status)
        run = self.set(run, log_bytes=command.log_bytes)
        self.after_attempt(run, command.outcome, self.retry_at(command))
        return c.PlainReply()

    def retry_at(self, command: c.Finish | c.Complete) -> int:
        assert command.retry_at_ms is not None
        delay_ms = command.retry_at_ms - command.now_ms
        return (self.now_ms if self.is_off(command.now_ms) else command.now_ms) + delay_ms

    def after_attempt(self, run: Run, outcome: AttemptOutcome, retry_at_ms: int) -> None:
        if run.stop is not None:
            self.end_stopped(run)
        elif outcome is AttemptOutcome.SUCCEEDED:
            self.close(run, RunState.SUCCEEDED, None)
        elif outcome is AttemptOutcome.CANCELLED:
            self.close(run, RunState.CANCELLED, "cancelled")
        elif run.attempt == run.attempts_max:
            self.close(run, RunState.DEAD, outcome.value)
        elif run.end_by_ms is not None and retry_at_ms >= run.end_by_ms:
            self.close(run, RunState.DEAD, "run_timeout")
        else:
            self.counts["attempts_retried"] += 1
            self.set(run, state=RunState.RETRYING, retry_at_ms=retry_at_ms)
            self.tell_owner(run.job_id, retry_at_ms)

    def end_attempt(
        self,
        run: Run,
        outcome: AttemptOutcome,
        started_ms: int | None,
        finished_ms: int,
        status: int | None = None,
        **fields: Any,
    ) -> Run:
        attempt = Attempt(
            attempt=run.attempt,
            node=run.node or "",
            outcome=outcome,
            status=status,
            started_ms=started_ms,
            finished_ms=finished_ms,
            **fields,
        )
        return self.set(run, attempts=(*run.attempts, attempt), started_ms=started_ms, finished_ms=finished_ms)

    def close(self, run: Run, state: RunState, reason: str | None) -> None:
        self.set(run, state=state, reason=reason)
        self.counts[f"runs_{state.value}"] += 1

    def withdraw(self, command: c.Withdraw) -> c.Reply:
        run = self.held(command.run_id, command.token, RunState.CLAIMED)
        if isinstance(run, c.Reply):
            return run
        if run.stop is not None:
            self.end_stopped(run, finished_ms=self.now_ms)
        elif command.reason is None:
            self.set(run, state=RunState.QUEUED, end_by_ms=run.end_by_ms if run.attempts else None, **FREE)
        elif command.reason == "superseded":
            self.supersede(run)
        else:
            self.skip(run, command.reason)
        return c.PlainReply()

    def lose(self, run: Run) -> None:
        if run.state is RunState.CLAIMED and run.release_ms > self.now_ms:
            if run.stop is not None:
                self.end_stopped(run, finished_ms=self.now_ms)
            else:
                self.set(run, state=RunState.QUEUED, end_by_ms=run.end_by_ms if run.attempts else None, **FREE)
            return
        run = self.end_attempt(run, AttemptOutcome.LOST, run.started_ms, self.now_ms, None)
        if run.stop is not None:
            self.end_stopped(run)
        elif run.attempt == run.attempts_max:
            self.close(run, RunState.DEAD, "lost")
        else:
            self.counts["attempts_retried"] += 1
            self.set(run, state=RunState.QUEUED, attempt=run.attempt + 1, finished_ms=None, **FREE)

    # --- sessions

    def open_session(self, command: c.OpenSession) -> c.Reply:
        before = self.sessions.get(command.node)
        if before is not None and command.incarnation <= before.incarnation:
            detail = f"incarnation {before.incarnation} was opened"
            return c.PlainReply(code="stale_incarnation", detail=detail)
        if before is not None and before.live:
            self.end(before)
        self.sessions[command.node] = Session(
            node=command.node,
            incarnation=command.incarnation,
            http=command.http,
            raft=command.raft,
            slots=command.slots,
            ahead=command.ahead,
            wall_ms=command.now_ms,
            opened_ms=command.now_ms,
            version=command.version,
            tzdata=command.tzdata,
            kind_slots=command.kind_slots,
            tags=command.tags,
            takes_buckets=command.takes_buckets,
        )
        self.renewed(command, 0)
        return c.SessionReply()

    def renew_session(self, command: c.RenewSession) -> c.Reply:
        session = self.sessions.get(command.node)
        if session is not None and command.incarnation < session.incarnation:
            return c.PlainReply(code="stale_incarnation")
        if session is None or session.incarnation != command.incarnation or not session.live:
            return c.PlainReply(code="unknown_session")
        if command.renewal < session.renewal:
            return c.PlainReply(code="renewed")
        company = any(other.live for node, other in self.sessions.items() if node != command.node)
        alone = 0 if company else session.alone + command.renewal - session.renewal
        fields = {"alone": alone, "renewal": command.renewal, "wall_ms": command.now_ms, "draining": command.draining}
        fields["suspect"] = False
        self.sessions[command.node] = replace(session, **fields)
        self.age()
        self.settle()
        self.renewed(command, command.renewal)
        return c.SessionReply()

    def suspect_session(self, command: c.SuspectSession) -> c.Reply:
        session = self.sessions.get(command.node)
        if session is None or session.incarnation != command.incarnation or not session.live:
            return c.PlainReply(code="unknown_session")
        if command.renewal < session.renewal:
            return c.PlainReply(code="renewed")
        self.sessions[command.node] = replace(session, suspect=True)
        return c.SessionReply()

    def expire_session(self, command: c.ExpireSession) -> c.Reply:
        session = self.sessions.get(command.node)
        if session is None or command.incarnation > session.incarnation:
            return c.PlainReply(code="unknown_session")
        if session.incarnation == command.incarnation and session.live:
            if command.renewal < session.renewal:
                return c.PlainReply(code="renewed")
            self.counts["sessions_expired"] += not session.draining
            self.end(session)
        for run in self.claims(command.node, command.incarnation):
            self.lose(run)
        self.ended.discard((command.node, command.incarnation))
        return c.SessionReply()

    def end(self, session: Session) -> None:
        self.sessions[session.node] = replace(session, live=False)
        if self.claims(session.node, session.incarnation):
            self.ended.add((session.node, session.incarnation))
        self.events.append(("*", c.SessionEnded(node=session.node, incarnation=session.incarnation)))

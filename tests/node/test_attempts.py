"""Attempts: within the slots, in order, only while the session holds, killed without a report."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink
from executor.noop import NoopExecutor
from node.attempts import Attempts
from node.live_files import LiveFiles
from node.live_log import LiveLog
from node.work import Definition, Work, rfc3339
from statemachine.commands import Start
from statemachine.records import ContainerTarget, HttpTarget, Job, NoopTarget, Target
from tests.node.test_timers import claim

DONE = Outcome(kind=OutcomeKind.SUCCEEDED)


@dataclass
class Told:
    """An AttemptSink that remembers."""

    began: list[str] = field(default_factory=list)
    lasted: list[Start] = field(default_factory=list)
    finished: list[tuple[str, OutcomeKind]] = field(default_factory=list)
    outputs: list[tuple[str, bytes]] = field(default_factory=list)
    log_bytes: list[int | None] = field(default_factory=list)

    def started(self, work: Work, started_ms: int) -> None:
        self.began.append(work.claim.run_id)

    def lasting(self, start: Start) -> None:
        self.lasted.append(start)

    def open_log(self, work: Work) -> LiveLog:
        return LiveLog(work.claim.run_id, work.claim.attempt, LiveFiles(Path("/nowhere/x")))

    def close_log(self, log: LiveLog) -> int | None:
        log.end()
        self.outputs.append((log.run_id, log.kept_in_memory().text()))
        return log.total_bytes or None

    def ended(
        self, work: Work, outcome: Outcome, started_ms: int, finished_ms: int, log_bytes: int | None = None
    ) -> None:
        self.finished.append((work.claim.run_id, outcome.kind))
        self.log_bytes.append(log_bytes)


@dataclass
class Gate:
    """An executor whose attempts end when the test says so."""

    open: dict[str, asyncio.Event] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        output.write(b"began\n")
        gate = self.open.setdefault(assignment.run_id, asyncio.Event())
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.killed.append(assignment.run_id)
            raise
        if assignment.run_id == "broken":
            raise RuntimeError("an executor that raises")
        return DONE

    async def close(self) -> None:
        return None

    async def let(self, run_id: str) -> None:
        self.open[run_id].set()
        await settle()


@dataclass
class Clock:
    now_s: float = 100.0

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def boottime(self) -> float:
        return self.now_s


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def work(run_id: str, target: Target | None = None, *, priority: int = 5, session: int = 1) -> Work:
    job = Job(job_id="j", name="a", team="t", target=target or HttpTarget(url="http://a/"), created_ms=0, updated_ms=0)
    kind = str((target or HttpTarget(url="http://a/")).__struct_config__.tag)
    one = claim(run_id, priority=priority, session=session)
    return Work(claim=one, definition=Definition(job=job, target={"type": kind}), args=b"null", api_url="http://n1")


@dataclass
class Bench:
    attempts: Attempts
    told: Told
    gate: Gate
    clock: Clock
    holds: list[bool]


@pytest.fixture
def bench() -> Bench:
    """Two slots; `holds[0]` is whether the session holds."""
    told, gate, clock, holds = Told(), Gate(), Clock(), [True]
    attempts = Attempts(
        slots=2,
        kind_slots={"container": 1},
        start_report_after_s=1.0,
        clock=clock,
        executors={"http": gate, "container": gate, "noop": NoopExecutor()},
        sink=told,
        may_start=lambda: holds[0],
    )
    return Bench(attempts, told, gate, clock, holds)


async def test_no_more_run_at_once_than_there_are_slots_and_the_highest_priority_is_next(bench: Bench) -> None:
    bench.attempts.take([work("a"), work("b"), work("c", priority=1), work("d", priority=9)])
    bench.attempts.step()
    await settle()
    assert bench.told.began == ["d", "a"]
    assert (len(bench.attempts), bench.attempts.waiting) == (2, 2)
    assert bench.attempts.running_by_kind() == {"http": 2, "container": 0, "noop": 0}
    await bench.gate.let("a")
    bench.attempts.step()
    assert bench.told.began == ["d", "a", "b"]
    assert bench.told.finished == [("a", OutcomeKind.SUCCEEDED)]


async def test_a_kind_whose_slots_are_taken_keeps_no_other_waiting(bench: Bench) -> None:
    image = ContainerTarget(image="busybox")
    bench.attempts.take([work("a", image, priority=9), work("b", image, priority=9), work("c")])
    bench.attempts.step()
    await settle()
    assert bench.told.began == ["a", "c"]
    assert bench.attempts.running_by_kind() == {"http": 1, "container": 1, "noop": 0}
    await bench.gate.let("c")
    bench.attempts.step()
    assert bench.attempts.waiting == 1
    await bench.gate.let("a")
    bench.attempts.step()
    assert bench.told.began == ["a", "c", "b"]


async def test_instant_attempts_need_no_slot_and_no_task(bench: Bench) -> None:
    bench.attempts.take([work("a"), work("b")])
    bench.attempts.step()
    tasks = len(asyncio.all_tasks())
    bench.attempts.take([work(f"n{number}", NoopTarget()) for number in range(1000)])
    bench.attempts.step()
    assert len(bench.told.finished) == 1000
    assert len(asyncio.all_tasks()) == tasks


async def test_nothing_starts_while_the_session_does_not_hold(bench: Bench) -> None:
    bench.holds[0] = False
    bench.attempts.take([work("a"), work("n", NoopTarget())])
    bench.attempts.step()
    assert bench.told.began == []
    bench.holds[0] = True
    bench.attempts.step()
    assert bench.told.began == ["n", "a"]


async def test_the_session_is_asked_again_in_the_middle_of_a_burst() -> None:
    answers = iter([True, True, False, False])
    told = Told()
    attempts = Attempts(
        slots=1,
        start_report_after_s=1.0,
        clock=Clock(),
        executors={"noop": NoopExecutor()},
        sink=told,
        may_start=lambda: next(answers),
    )
    attempts.take([work(f"n{number}", NoopTarget()) for number in range(1000)])
    attempts.step()
    assert 0 < len(told.finished) < 1000
    assert attempts.waiting == 1000 - len(told.finished)


async def test_a_start_is_reported_only_for_what_lasts(bench: Bench) -> None:
    bench.attempts.take([work("short"), work("long")])
    bench.attempts.step()
    await settle()
    await bench.gate.let("short")
    assert bench.attempts.next_report_s() == 101.0
    bench.clock.now_s = 101.0
    bench.attempts.step()
    bench.attempts.step()
    assert [(start.run_id, start.started_ms) for start in bench.told.lasted] == [("long", 100_000)]


async def test_the_attempts_of_a_session_are_killed_without_a_report(bench: Bench) -> None:
    bench.attempts.take([work("a"), work("b", session=2)])
    bench.attempts.step()
    await settle()
    assert bench.attempts.kill(1) == 1
    await settle()
    assert bench.gate.killed == ["a"]
    assert bench.told.finished == []
    assert bench.told.outputs == [("a", b"began\n")]
    assert len(bench.attempts) == 1


async def test_an_attempt_killed_before_its_first_step_leaves_no_trace(bench: Bench) -> None:
    bench.attempts.take([work("a")])
    bench.attempts.step()
    bench.attempts.kill(1)
    await settle()
    assert len(bench.attempts) == 0


async def test_what_an_attempt_put_out_is_kept_before_its_end_is_told(bench: Bench) -> None:
    bench.attempts.take([work("a"), work("n", NoopTarget())])
    bench.attempts.step()
    await settle()
    await bench.gate.let("a")
    assert bench.told.finished == [("n", OutcomeKind.SUCCEEDED), ("a", OutcomeKind.SUCCEEDED)]
    assert bench.told.outputs == [("a", b"began\n")]
    assert bench.told.log_bytes == [None, 6]


async def test_an_executor_that_raises_fails_the_attempt(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.attempts.take([work("broken")])
    bench.attempts.step()
    await settle()
    await bench.gate.let("broken")
    assert bench.told.finished == [("broken", OutcomeKind.FAILED)]
    assert "broke its promise" in caplog.text


async def test_a_kind_that_this_node_does_not_know_fails_the_attempt() -> None:
    told = Told()
    attempts = Attempts(
        slots=1,
        start_report_after_s=1.0,
        clock=Clock(),
        executors={},
        sink=told,
        may_start=lambda: True,
    )
    attempts.take([work("a")])
    attempts.step()
    await settle()
    assert told.finished == [("a", OutcomeKind.FAILED)]


async def test_what_waits_can_be_taken_back(bench: Bench) -> None:
    bench.holds[0] = False
    bench.attempts.take([work("a"), work("b", session=2), work("n", NoopTarget())])
    taken = bench.attempts.give_up(lambda one: one.claim.session == 1)
    assert {one.claim.run_id for one in taken} == {"a", "n"}
    assert bench.attempts.waiting == 1


async def test_waiting_for_the_end_is_bounded(bench: Bench) -> None:
    assert await bench.attempts.wait_idle(0.0)
    bench.attempts.take([work("a")])
    bench.attempts.step()
    await settle()
    assert not await bench.attempts.wait_idle(0.01)
    asyncio.get_running_loop().call_soon(bench.gate.open["a"].set)
    assert await bench.attempts.wait_idle(5.0)


def test_due_at_is_what_the_api_shows() -> None:
    from httpapi.render import instant

    for time_ms in (0, 1, 999, 1_796_004_000_123, 2**47 - 1):
        assert rfc3339(time_ms) == instant(time_ms)


async def test_a_stopped_attempt_is_killed_and_reported_as_cancelled_and_one_that_waits_is_given_up(
    bench: Bench,
) -> None:
    bench.attempts.take([work("a"), work("b"), work("c")])
    bench.attempts.step()
    await settle()
    keys = {work(name).key for name in ("a", "c", "unknown")}
    assert [one.claim.run_id for one in bench.attempts.stop(keys)] == ["c"]
    assert bench.attempts.stop(keys) == []
    await settle()
    assert (bench.gate.killed, bench.told.finished) == (["a"], [("a", OutcomeKind.CANCELLED)])
    assert (len(bench.attempts), bench.attempts.waiting) == (1, 0)


async def test_an_attempt_stopped_before_its_first_step_is_reported_too(bench: Bench) -> None:
    bench.attempts.take([work("a")])
    bench.attempts.step()
    bench.attempts.stop({work("a").key})
    await settle()
    assert bench.told.finished == [("a", OutcomeKind.CANCELLED)]


async def test_an_attempt_that_ends_while_it_is_stopped_tells_its_own_end(bench: Bench) -> None:
    """Once: not as cancelled besides. And the session that goes meanwhile does not disturb it."""
    stubborn = Stubborn()
    told = Told()
    attempts = Attempts(
        slots=1,
        start_report_after_s=1.0,
        clock=Clock(),
        executors={"http": stubborn},
        sink=told,
        may_start=lambda: True,
    )
    attempts.take([work("a")])
    attempts.step()
    await settle()
    attempts.stop({work("a").key})
    await settle()
    assert attempts.kill(1) == 0, "it is being killed"
    stubborn.tidy.set()
    await settle()
    assert told.finished == [("a", OutcomeKind.FAILED)]


@dataclass
class Stubborn:
    """An executor that takes its time over being cancelled, and then answers."""

    tidy: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, assignment: Assignment) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.tidy.wait()
        return Outcome(kind=OutcomeKind.FAILED)

    async def close(self) -> None:
        return None

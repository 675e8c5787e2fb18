"""Reports are proposed until they are answered, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from node import reporter as module
from node.reporter import Report, Reporter
from raftlog.errors import LogClosed, LogError, OutcomeUnknown
from raftlog.interface import Lane
from statemachine.codec import decode_command, encode_reply
from statemachine.commands import AnyReply, PlainReply, Withdraw

OK = encode_reply(PlainReply())


class Log:
    """A log that fails as often as it is told; it lets proposals wait while `gate` is closed."""

    def __init__(self, *errors: LogError) -> None:
        self.errors: Iterator[LogError] = iter(errors)
        self.proposed: list[str] = []
        self.under_way = 0
        self.most_under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        decoded = decode_command(command)
        assert isinstance(decoded, Withdraw)
        self.proposed.append(decoded.run_id)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        error = next(self.errors, None)
        if error is not None:
            raise error
        return OK


def report(run_id: str = "r") -> Withdraw:
    return Withdraw(now_ms=1, run_id=run_id, token=1)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER_S", 0.0)


def reporter_of(log: Log) -> Reporter:
    return Reporter(log, timeout_s=1.0)  # type: ignore[arg-type]


async def test_a_report_is_repeated_until_it_is_answered_and_answered_once() -> None:
    log = Log(OutcomeUnknown(), OutcomeUnknown())
    answers: list[tuple[Report, AnyReply]] = []
    one = reporter_of(log)
    one.report(report(), lambda what, reply: answers.append((what, reply)))
    assert await one.wait_answered(5.0)
    assert log.proposed == ["r", "r", "r"]
    assert answers == [(report(), PlainReply())]
    assert len(one) == 0


async def test_when_the_log_is_gone_a_report_is_given_up() -> None:
    answers: list[Report] = []
    one = reporter_of(Log(LogClosed()))
    one.report(report(), lambda what, reply: answers.append(what))
    assert await one.wait_answered(5.0)
    assert answers == []


async def test_a_bounded_number_is_under_way_and_the_others_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORTS_IN_FLIGHT_MAX", 3)
    log = Log()
    log.gate.clear()
    one = reporter_of(log)
    for number in range(10):
        one.report(report(str(number)), lambda what, reply: None)
    assert len(one) == 10
    assert not await one.wait_answered(0.01)
    assert log.proposed == ["0", "1", "2"]
    log.gate.set()
    assert await one.wait_answered(5.0)
    assert sorted(log.proposed) == [str(number) for number in range(10)]
    assert log.most_under_way == 3


async def test_stopping_gives_up_what_is_not_answered() -> None:
    log = Log()
    log.gate.clear()
    one = reporter_of(log)
    one.report(report(), lambda what, reply: None)
    await asyncio.sleep(0)
    one.stop()
    assert await one.wait_answered(5.0)


async def test_reports_take_less_while_starts_wait_and_all_are_answered_after() -> None:
    log = Log()
    answers: list[Report] = []
    log.gate.clear()
    one = reporter_of(log)
    one.yield_to_starts(True)
    for number in range(module.REPORTS_BESIDE_STARTS_MAX + 100):
        one.report(report(str(number)), lambda what, reply: answers.append(what))
    await asyncio.sleep(0)
    assert log.under_way == module.REPORTS_BESIDE_STARTS_MAX
    one.yield_to_starts(False)
    await asyncio.sleep(0)
    assert log.under_way == module.REPORTS_BESIDE_STARTS_MAX + 100
    log.gate.set()
    assert await one.wait_answered(5.0)
    assert len(answers) == module.REPORTS_BESIDE_STARTS_MAX + 100


async def test_an_outage_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(*[OutcomeUnknown("no answer")] * 50)
    reporter = reporter_of(log)
    answered: list[str] = []
    for number in range(10):
        reporter.report(report(f"r{number}"), lambda report, reply: answered.append(report.run_id))
    assert await reporter.wait_answered(5.0)
    assert len(answered) == 10
    assert [record.getMessage() for record in caplog.records] == [
        "Withdraw of run r0: no answer; again until it is answered, as all others"
    ]
    log.errors = iter([OutcomeUnknown("no answer again")])
    reporter.report(report("later"), lambda report, reply: answered.append(report.run_id))
    assert await reporter.wait_answered(5.0)
    assert len(caplog.records) == 2, "the next outage is said again"

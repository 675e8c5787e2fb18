"""Whatever is written, the answer is a schedule or an InvalidSchedule whose remedy works; no library's error leaks."""

from __future__ import annotations

import random

import pytest
from croniter import CroniterBadCronError, croniter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node import schedule_pattern
from node.schedule import InvalidSchedule, ScheduleSpec, compile_schedule, parse_run_at
from tests.node.schedule_oracle import random_sample

SIGNS = "0123456789*?,-/#()@~ \tLWHRlwhr smhd_.+:=jJunFriSUNMON\n\x00é\uff15"
fields = st.text(alphabet=SIGNS, max_size=12)
lines = st.lists(fields, min_size=1, max_size=8).map(" ".join)
near_misses = st.tuples(st.integers(0, 10_000), st.integers(0, 80), st.sampled_from(SIGNS)).map(
    lambda parts: _with_a_slip(*parts)
)


def _with_a_slip(seed: int, place: int, sign: str) -> str:
    """A good expression with one sign wrong."""
    text = random_sample(random.Random(seed)).text
    place %= len(text)
    return text[:place] + sign + text[place + 1 :]


def accepts(text: str) -> bool:
    """Compiles the text as an expression; a refusal must offer something that works."""
    try:
        schedule = compile_schedule(ScheduleSpec(expressions=(text,), tz="Europe/Berlin"), "job")
    except InvalidSchedule as refused:
        assert refused.field == "schedule"
        remedy = ScheduleSpec(expressions=(refused.remedy,), tz="Europe/Berlin")
        assert compile_schedule(remedy, "job").next(0) is not None, (text, refused.remedy)
        assert refused.reason.isprintable()
        return False
    assert schedule.describe()
    assert schedule.next(0) is not None
    return True


@settings(max_examples=400, deadline=None)
@example("*/" + "9" * 5000 + " * * * *")
@example("\ud800")
@example("0 " * 300)
@example("@every " + "9" * 400 + "s")
@example("H(99999999999999999999-1)/0 * * * *")
@example(",".join(["99"] * 160) + " * * * *")
@given(st.one_of(st.text(), lines, fields.map(lambda text: "@every " + text), fields.map(lambda text: "@" + text)))
@pytest.mark.slow
def test_any_text_as_an_expression(text: str) -> None:
    accepts(text)


@settings(max_examples=400, deadline=None)
@given(near_misses)
@pytest.mark.slow
def test_a_good_expression_with_one_sign_wrong(text: str) -> None:
    accepts(text)


@settings(max_examples=150, deadline=None)
@example("\ud800")
@example("A/../../../etc/passwd")
@given(st.one_of(st.text(), st.text(alphabet="EuropeBerlin/UTC_.", max_size=20)))
@pytest.mark.slow
def test_any_text_as_a_zone(tz: str) -> None:
    try:
        compile_schedule(ScheduleSpec(expressions=("0 0 * * *",), tz=tz), "job")
    except InvalidSchedule as refused:
        assert refused.field == "tz"
        compile_schedule(ScheduleSpec(expressions=("0 0 * * *",), tz=refused.remedy), "job")


times = st.text(alphabet="0123456789-:TZ+. ", max_size=32)


@settings(max_examples=300, deadline=None)
@example("9999-12-31T23:59:59-23:59")
@example("0001-01-01T00:00:00+23:59")
@example("2026-02-30T00:00:00Z")
@example("2026-01-01T00:00:00+99:99")
@example("0000-00-00")
@given(st.one_of(st.text(), times, st.datetimes().map(str), st.datetimes().map(lambda t: t.isoformat() + "Z")))
@pytest.mark.slow
def test_any_text_as_a_time(text: str) -> None:
    try:
        parse_run_at(text, "Europe/Berlin")
    except InvalidSchedule as refused:
        assert refused.field == "run_at"
        parse_run_at(refused.remedy, "Europe/Berlin")


def test_croniter_never_sees_a_text_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(schedule_pattern, "croniter", _Spy(seen))
    for text in ["1-1/5 * * * *", "a b c d e", "0 22-2 * * *", "*/60 * * * *", "0 0 * * fri-mon"]:
        with pytest.raises(InvalidSchedule):
            compile_schedule(ScheduleSpec(expressions=(text,), tz="UTC"), "job")
        assert text not in seen


def test_croniter_refusing_what_the_gate_let_through_would_be_told_as_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(text: str) -> None:
        raise CroniterBadCronError(text)

    monkeypatch.setattr(schedule_pattern.croniter, "expand", broken)
    with pytest.raises(InvalidSchedule, match="croniter does not read"):
        compile_schedule(ScheduleSpec(expressions=("59 23 31 12 0,1,2,4",), tz="UTC"), "job")


class _Spy:
    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    def expand(self, text: str) -> object:
        self._seen.append(text)
        return croniter.expand(text)

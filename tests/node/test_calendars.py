"""Exclusion calendars: days as text, as instants, and what they do to a job."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.admission import make_plan
from node.calendars import calendar_of
from node.closed_days import ClosedDays
from node.interface import CalendarDraft, Conflict, Invalid, NotFound, PreconditionFailed, RunState
from node.plans import PlanCache
from statemachine.policy_records import Calendar
from statemachine.records import Job, NoopTarget, SkipReason
from tests.node.conftest import LiveNode
from tests.node.test_service import draft


def ms(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def test_days_and_spans_are_put_in_order_and_joined() -> None:
    days = ["2026-12-31/2027-01-02", "2026-12-25", "2026-12-26", "2027-01-02"]
    spans = calendar_of("x", CalendarDraft(days=days, tz="Europe/Berlin")).spans
    named = [tuple(datetime.date.fromordinal(day).isoformat() for day in span) for span in spans]
    assert named == [("2026-12-25", "2026-12-26"), ("2026-12-31", "2027-01-02")]


@pytest.mark.parametrize(
    "day",
    ["", "2026-13-01", "2026-02-29", "26-12-25", "2026-1-1", "20261225", "2026-12-25/", "2027-01-01/2026-12-31", "x/y"],
)
def test_what_is_no_day_is_named(day: str) -> None:
    with pytest.raises(Invalid) as refused:
        calendar_of("x", CalendarDraft(days=["2026-12-25", day]))
    assert [error.path for error in refused.value.errors] == ["days[1]"]


def test_a_calendar_is_refused_with_all_that_is_wrong_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.calendars.CALENDAR_SPANS_MAX", 1)
    with pytest.raises(Invalid) as refused:
        calendar_of("a b", CalendarDraft(days=["2026-12-25", "2026-12-27"], tz="Mars"))
    assert [error.path for error in refused.value.errors] == ["name", "tz", "days"]


def test_a_day_is_that_of_the_calendars_zone_or_else_of_the_jobs() -> None:
    spans = ((datetime.date(2026, 12, 25).toordinal(),) * 2,)
    tokyo = ClosedDays([Calendar(name="x", tz="Asia/Tokyo", spans=spans)], "America/New_York")
    assert tokyo.closed_until(ms("2026-12-25T00:00:00+09:00")) == ms("2026-12-26T00:00:00+09:00")
    assert tokyo.closed_until(ms("2026-12-26T00:00:00+09:00")) is None
    own = ClosedDays([Calendar(name="x", spans=spans)], "America/New_York")
    assert own.closed_from(ms("2026-12-25T23:59:59-05:00")) == ms("2026-12-25T00:00:00-05:00")
    assert own.closed_until(ms("2026-12-24T23:59:59-05:00")) is None


def test_a_day_that_begins_in_a_gap_begins_with_it() -> None:
    """Cuba's clocks go forward at midnight."""
    day = datetime.date(2026, 3, 8).toordinal()
    closed = ClosedDays([Calendar(name="x", spans=((day, day),))], "America/Havana")
    first_ms = ms("2026-03-08T01:00:00-04:00")
    assert closed.closed_from(first_ms + 1) == first_ms
    assert closed.closed_until(first_ms - 1) is None


@given(
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=6),
    tz=st.sampled_from(("UTC", "Europe/Berlin", "Pacific/Apia", "America/Havana")),
    split=st.booleans(),
    hour=st.integers(0, 24 * 45),
)
def test_an_instant_is_closed_if_its_day_is(spans: list[tuple[int, int]], tz: str, split: bool, hour: int) -> None:
    """Against the days themselves, with several calendars whose spans may touch and overlap."""
    start = datetime.date(2026, 3, 1).toordinal()
    days = {start + first + number for first, length in spans for number in range(length + 1)}
    texts = [
        [datetime.date.fromordinal(day).isoformat() for day in sorted(days) if not split or day % 2 == half]
        for half in (0, 1)
    ]
    calendars = [calendar_of("x", CalendarDraft(days=part)) for part in texts]
    closed = ClosedDays(calendars, tz)
    at = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    at_ms = round(at.timestamp() * 1000)
    zone = zoneinfo.ZoneInfo(tz)
    is_closed = at.astimezone(zone).toordinal() in days
    from_ms, until_ms = closed.closed_from(at_ms), closed.closed_until(at_ms)
    assert (from_ms is not None, until_ms is not None) == (is_closed, is_closed)
    if from_ms is not None and until_ms is not None:
        assert from_ms <= at_ms < until_ms
        edges = [
            datetime.datetime.fromtimestamp(edge / 1000, zone).toordinal()
            for edge in (from_ms - 1, from_ms, until_ms - 1, until_ms)
        ]
        assert [day in days for day in edges] == [False, True, True, False]


async def test_a_calendar_is_set_read_listed_and_deleted(idle: LiveNode) -> None:
    service = idle.service
    made = await service.put_calendar("x", CalendarDraft(days=["2026-12-25"]))
    assert (made.version, (await service.calendar("x"))[0]) == (1, made)
    with pytest.raises(PreconditionFailed):
        await service.put_calendar("x", CalendarDraft(days=[]), expected_version=0)
    await service.put_calendar("y", CalendarDraft(days=[]), expected_version=0)
    first = await service.calendars(limit=1)
    rest = await service.calendars(limit=1, cursor=first.next_cursor)
    assert [one.name for one in (*first.items, *rest.items)] == ["x", "y"] and rest.next_cursor is None
    with pytest.raises(PreconditionFailed):
        await service.delete_calendar("x", expected_version=9)
    await service.delete_calendar("x", expected_version=1)
    for call in (service.calendar("x"), service.delete_calendar("x")):
        with pytest.raises(NotFound):
            await call


async def test_a_job_names_calendars_that_exist_and_they_stay(idle: LiveNode) -> None:
    body = draft(exclude_calendars=["x"])
    for names in (["x"], ["x", "x"], list("abcdefghi")):
        with pytest.raises(Invalid) as refused:
            await idle.service.create_job(draft(exclude_calendars=names))
        assert [error.path for error in refused.value.errors] == ["exclude_calendars"]
    await idle.service.put_calendar("x", CalendarDraft(days=["2020-01-01"]))
    job_id = (await idle.service.create_job(body)).job_id
    with pytest.raises(Conflict, match=job_id):
        await idle.service.delete_calendar("x")
    with pytest.raises(Invalid):
        await idle.service.update_job(job_id, draft(exclude_calendars=["z"]))
    await idle.service.update_job(job_id, draft())
    await idle.service.delete_calendar("x")


async def test_what_is_shown_as_the_next_run_is_one_that_runs(idle: LiveNode) -> None:
    """dkron#1031: displayed next time differs from what fires."""
    today = datetime.datetime.fromtimestamp(idle.clock.wall_ms() / 1000, datetime.UTC).date()
    week = f"{today.isoformat()}/{(today + datetime.timedelta(days=6)).isoformat()}"
    await idle.service.put_calendar("x", CalendarDraft(days=[week]))
    created = await idle.service.create_job(draft(exclude_calendars=["x"]))
    opens_ms = ms(f"{(today + datetime.timedelta(days=7)).isoformat()}T00:00:00+00:00")
    assert created.next_run_ms == opens_ms
    assert (await idle.service.job(created.job_id))[0].next_run_ms == opens_ms
    shown = await idle.service.preview(schedule=(), tz="UTC", count=3, job_id=created.job_id)
    assert shown.ticks_ms[0] == opens_ms and len(shown.ticks_ms) == len(shown.excluded_ms) == 3
    assert idle.clock.wall_ms() < shown.excluded_ms[0] < opens_ms
    await idle.service.put_calendar("x", CalendarDraft(days=[]))
    again = (await idle.service.job(created.job_id))[0].next_run_ms
    assert again is not None and again < idle.clock.wall_ms() + 3_600_000


async def test_a_calendar_that_changes_counts_for_the_next_tick(live: LiveNode) -> None:
    """Excluded days are recorded as skips; a day that is taken out runs again."""
    today = datetime.datetime.fromtimestamp(live.clock.wall_ms() / 1000, datetime.UTC).date()
    span = f"{today.isoformat()}/{(today + datetime.timedelta(days=1)).isoformat()}"
    await live.service.put_calendar("x", CalendarDraft(days=[span]))
    created = await live.service.create_job(draft(schedule="@every 1s", exclude_calendars=["x"]))
    skipped = await live.wait_for_runs(created.job_id, (RunState.SKIPPED,), 1)
    assert skipped[0].reason == SkipReason.CALENDAR
    await live.service.put_calendar("x", CalendarDraft(days=[]))
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 1)


def test_a_plan_is_kept_until_a_calendar_changes() -> None:
    class Source:
        def __init__(self) -> None:
            self.calendars = {"x": Calendar(name="x", version=1)}
            self.asked = 0

        def job(self, job_id: str) -> Job | None:
            self.asked += 1
            return Job(
                job_id=job_id,
                name="a",
                team="t",
                target=NoopTarget(),
                expressions=("@every 1h",),
                exclude_calendars=("x", "gone"),
                created_ms=0,
                updated_ms=0,
            )

        def calendar(self, name: str) -> Calendar | None:
            return self.calendars.get(name)

    source, plans = Source(), PlanCache(make_plan)
    first = plans.plan(source, "A", 1)
    assert first is not None and plans.plan(source, "A", 1) is first
    source.calendars = {"x": Calendar(name="x", version=2, spans=((1, 2),))}
    second = plans.plan(source, "A", 1)
    assert second is not None and second.closed is not first.closed and second.ticks is first.ticks
    assert source.asked == 1

"""Differential tests: against croniter on naive time, and against cronsim where cronsim is right."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError

from node.schedule import InvalidSchedule, Schedule, ScheduleSpec, compile_schedule
from node.zones import pin_tzdata
from tests.node.schedule_oracle import random_sample

TICKS = 8
EASY_ZONES = ["UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Tokyo"]
"""Changes of one hour, not at midnight; cronsim goes wrong at the others and after a start in a second pass."""


@pytest.fixture(scope="module", autouse=True)
def _pinned() -> None:
    pin_tzdata()


def compiled(text: str, tz: str) -> Schedule | None:
    try:
        return compile_schedule(ScheduleSpec(expressions=(text,), tz=tz), "job")
    except InvalidSchedule as refused:
        assert "never comes" in refused.reason
        return None


def ours(schedule: Schedule, start: datetime) -> list[datetime]:
    start_ms = round(start.timestamp()) * 1000
    return [datetime.fromtimestamp(t // 1000, UTC) for t in schedule.between(start_ms, start_ms + 10**15, TICKS)]


def random_start(rng: random.Random) -> datetime:
    return datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randint(0, 50 * 365 * 86_400))


@pytest.mark.slow
def test_on_naive_time_croniter_agrees() -> None:
    rng = random.Random(7)
    compared = 0
    while compared < 400:
        sample = random_sample(rng, picks=False)
        schedule = compiled(sample.text, "UTC")
        if schedule is None or _is_read_otherwise(sample.text):
            continue
        start = random_start(rng)
        iterator = croniter(sample.text, start.replace(tzinfo=None), ret_type=datetime, implement_cron_bug=True)
        try:
            theirs = [iterator.get_next().replace(tzinfo=UTC) for _ in range(TICKS)]
        except CroniterBadDateError:
            continue
        assert ours(schedule, start) == theirs, (sample.text, start)
        compared += 1


def _is_read_otherwise(text: str) -> bool:
    """croniter keeps `*` beside the numbers of a list, and its week ends on Saturday for `5/1`."""
    fields = text.split()
    return any("*" in field and "," in field for field in fields) or "/" in fields[4]


@pytest.mark.slow
def test_in_easy_zones_cronsim_agrees() -> None:
    rng = random.Random(8)
    compared = 0
    while compared < 400:
        sample = random_sample(rng, picks=False)
        tz = rng.choice(EASY_ZONES)
        start = random_start(rng).astimezone(ZoneInfo(tz))
        schedule = compiled(sample.text, tz)
        if schedule is None or start.fold:
            continue
        try:
            iterator = CronSim(sample.text, start)
        except CronSimError:
            continue
        theirs = [next(iterator).astimezone(UTC) for _ in range(TICKS)]
        assert ours(schedule, start) == theirs, (sample.text, tz, start)
        compared += 1


def test_the_differences_from_croniter_are_the_ones_that_we_want() -> None:
    """If one of these fails, croniter changed its mind, and our rewriting for it may be needless."""
    assert croniter.expand("5-5 * * * *")[0][0] == ["*"]
    assert croniter.expand("0 0 * * 5,*")[0][4] != ["*"]
    assert croniter.expand("0 22-2 * * *")[0][1] == [0, 1, 2, 22, 23]
    assert croniter.expand("0 0 * * 5/1")[0][4] == [5, 6]
    assert croniter.expand("0 0 * * 1#1")[1] == {1: {1}}

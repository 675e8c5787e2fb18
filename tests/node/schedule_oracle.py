"""A second, naive way to compute ticks, which shares no code with node/: dates by the calendar, zones by zoneinfo, and
a walk over every real minute. And random schedules that know their own value sets."""

from __future__ import annotations

import calendar
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

DAY_MINUTES = 1440
EPOCH = date(1970, 1, 1)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A schedule and what its fields mean, said twice."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[object]
    months: frozenset[int]
    weekdays: frozenset[object]

    @property
    def wildcard(self) -> bool:
        minute, hour = self.text.split()[:2]
        return minute[0] == "*" or hour[0] == "*"

    def has_date(self, day: date) -> bool:
        day_field, weekday_field = self.text.split()[2], self.text.split()[4]
        by_day = any(_is_day(value, day) for value in self.days)
        by_weekday = any(_is_weekday(value, day) for value in self.weekdays)
        either = day_field[0] not in "*?" and weekday_field[0] not in "*?"
        return day.month in self.months and ((by_day or by_weekday) if either else (by_day and by_weekday))

    def has_minute(self, of_day: int) -> bool:
        return of_day // 60 in self.hours and of_day % 60 in self.minutes


def _is_day(value: object, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if isinstance(value, int):
        return day.day == value
    kind, number = value  # type: ignore[misc]
    if kind == "L":
        return day.day == length - number
    if kind == "LW":
        return day == max(d for d in _month(day) if d.weekday() < 5)
    if number > length:
        return False
    workdays = [d for d in _month(day) if d.weekday() < 5]
    return day == min(workdays, key=lambda d: (abs(d.day - number), d.day))


def _is_weekday(value: object, day: date) -> bool:
    if isinstance(value, int):
        return day.isoweekday() % 7 == value
    kind, weekday, nth = value  # type: ignore[misc]
    same = [d for d in _month(day) if d.isoweekday() % 7 == weekday]
    return day in (same[nth - 1 : nth] if kind == "#" else same[-1:])


def _month(day: date) -> list[date]:
    return [day.replace(day=d) for d in range(1, calendar.monthrange(day.year, day.month)[1] + 1)]


def random_sample(rng: random.Random, *, picks: bool = True) -> Sample:
    """A schedule of random fields; `picks`: with L, W and # too. It may name a date that never comes."""
    minute, minutes = _field(rng, 0, 59)
    hour, hours = _field(rng, 0, 23)
    day, days = _field(rng, 1, 31, star=0.55)
    month, months = _field(rng, 1, 12, star=0.7, names=MONTHS)
    weekday, weekdays = _field(rng, 0, 7, star=0.55, names=WEEKDAYS)
    day_values: set[object] = set(days)
    weekday_values: set[object] = {value % 7 for value in weekdays}
    if picks and rng.random() < 0.15:
        day, day_values = _picked(rng, day, day_values, _day_pick(rng))
    if picks and rng.random() < 0.15:
        weekday, weekday_values = _picked(rng, weekday, weekday_values, _weekday_pick(rng))
    return Sample(
        text=f"{minute} {hour} {day} {month} {weekday}",
        minutes=frozenset(minutes),
        hours=frozenset(hours),
        days=frozenset(day_values),
        months=frozenset(months),
        weekdays=frozenset(weekday_values),
    )


def _picked(rng: random.Random, text: str, values: set[object], pick: tuple[str, object]) -> tuple[str, set[object]]:
    if rng.random() < 0.5:
        return pick[0], {pick[1]}
    return f"{text},{pick[0]}", values | {pick[1]}


def _day_pick(rng: random.Random) -> tuple[str, object]:
    number = rng.randint(1, 31)
    back = rng.randint(1, 9)
    return rng.choice([("L", ("L", 0)), ("LW", ("LW", 0)), (f"L-{back}", ("L", back)), (f"{number}W", ("W", number))])


def _weekday_pick(rng: random.Random) -> tuple[str, object]:
    weekday, nth = rng.randint(0, 6), rng.randint(1, 5)
    name = rng.choice([str(weekday), WEEKDAYS[weekday].upper()])
    return rng.choice([(f"{name}#{nth}", ("#", weekday, nth)), (f"{name}L", ("L", weekday, 0))])


def _field(
    rng: random.Random, low: int, high: int, *, star: float = 0.3, names: list[str] | None = None
) -> tuple[str, set[int]]:
    if rng.random() < star:
        return "*", set(range(low, high + 1))
    items = [_item(rng, low, high, names) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return ",".join(text for text, _ in items), set().union(*(values for _, values in items))


def _item(rng: random.Random, low: int, high: int, names: list[str] | None) -> tuple[str, set[int]]:
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    shape = rng.choice(["value", "value", "range", "stepped", "star", "from"])
    if shape == "star":
        step = rng.randint(1, high - low)
        return f"*/{step}", set(range(low, high + 1, step))
    if shape == "value" or first == last:
        return _name(rng, first, low, names), {first}
    if shape == "range":
        return f"{_name(rng, first, low, names)}-{last}", set(range(first, last + 1))
    if shape == "from":
        step = rng.randint(1, high - first)
        return f"{first}/{step}", set(range(first, high + 1, step))
    step = rng.randint(1, last - first)
    return f"{first}-{last}/{step}", set(range(first, last + 1, step))


def _name(rng: random.Random, value: int, low: int, names: list[str] | None) -> str:
    if names is None or value - low >= len(names) or rng.random() < 0.5:
        return str(value)
    return rng.choice([str.upper, str.lower, str.title])(names[value - low])


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Every real minute of a stretch with the wall minute that the zone's clock shows."""

    instants: list[int]
    walls: list[int]
    shown_before: list[bool]
    """Whether an earlier minute of the stretch showed the same wall minute; and whether a later one will."""
    shown_again: list[bool]
    removed: dict[int, list[int]]
    """Index of the first minute after a gap: the wall minutes that never came."""

    def ticks(self, sample: Sample, *, gap: str = "after", fold: str = "default") -> list[int]:
        """Unix seconds of the ticks, by the letter of the rule. The first two days only say what was already shown."""
        fold = {"default": "both" if sample.wildcard else "first"}.get(fold, fold)
        not_counted = {"both": [False] * len(self.walls), "first": self.shown_before, "last": self.shown_again}[fold]
        minutes = [sample.has_minute(of_day) for of_day in range(DAY_MINUTES)]
        days = {day: sample.has_date(EPOCH + timedelta(days=day)) for day in self._days()}
        matching = {
            index
            for index, (wall, is_left_out) in enumerate(zip(self.walls, not_counted, strict=True))
            if minutes[wall % DAY_MINUTES] and days[wall // DAY_MINUTES] and not is_left_out
        }
        if gap == "after" and not sample.wildcard:
            matching |= {
                index
                for index, walls in self.removed.items()
                if any(minutes[wall % DAY_MINUTES] and days[wall // DAY_MINUTES] for wall in walls)
            }
        return [self.instants[index] for index in sorted(matching)]

    def _days(self) -> range:
        return range(min(self.walls) // DAY_MINUTES, max(self.walls) // DAY_MINUTES + 1)


def walk(zone: ZoneInfo, from_s: int, until_s: int) -> Walk:
    """All minutes of from_s <= t < until_s; both are whole minutes."""
    instants = list(range(from_s, until_s, 60))
    walls = [(instant + int(offset_s_at(zone, instant))) // 60 for instant in instants]
    last_shown = {wall: index for index, wall in enumerate(walls)}
    shown: set[int] = set()
    shown_before = []
    removed = {}
    for index, wall in enumerate(walls):
        shown_before.append(wall in shown)
        if index and wall > walls[index - 1] + 1:
            removed[index] = [w for w in range(walls[index - 1] + 1, wall) if w not in shown]
        shown.add(wall)
    shown_again = [last_shown[wall] != index for index, wall in enumerate(walls)]
    return Walk(instants=instants, walls=walls, shown_before=shown_before, shown_again=shown_again, removed=removed)


def changes_of(zone: ZoneInfo, from_year: int, until_year: int) -> list[int]:
    """Unix seconds at which the zone's offset changes, found by asking twice a day and then halving."""
    start = int(datetime(from_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(until_year, 1, 1, tzinfo=UTC).timestamp())
    found = []
    before = offset_s_at(zone, start)
    for at_s in range(start, end + 43_200, 43_200):
        after = offset_s_at(zone, at_s)
        if after != before:
            found.append(_first_with(zone, at_s - 43_200, at_s, after))
        before = after
    return found


def _first_with(zone: ZoneInfo, low: int, high: int, offset_s: float) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if offset_s_at(zone, middle) == offset_s else (middle, high)
    return high


def offset_s_at(zone: ZoneInfo, at_s: int) -> float:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def ticks_after(ticks: Iterable[int], after_s: int, until_s: int) -> list[int]:
    return [tick for tick in ticks if after_s < tick <= until_s]

"""Zones as stretches of constant offset, against zoneinfo; and the pin of the database."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest

from node.zones import FIRST_S, LAST_S, RULE_YEARS_KEPT_MAX, Zone, pin_tzdata, tzdata_version, zone
from node.zones_file import ZoneFile, parse_posix_rule, parse_zone_file, read_zone_file, zone_names
from tests.node.schedule_oracle import offset_s_at

DAY_S = 86_400


@pytest.fixture(scope="module", autouse=True)
def _pinned() -> None:
    pin_tzdata()


def instant(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def named(name: str) -> Zone:
    found = zone(name)
    assert found is not None
    return found


def check_segments(name: str, from_s: int, until_s: int) -> None:
    """Each boundary, the second before it and the middle of each segment have the offset that zoneinfo says."""
    segments, reference = named(name), zoneinfo.ZoneInfo(name)
    at_s = from_s
    while at_s < until_s:
        segment = segments.segment_at(at_s)
        assert segment.start_s <= at_s < segment.end_s
        assert segments.segment_at(segment.end_s - 1) == segment
        middle_s = (max(segment.start_s, from_s) + min(segment.end_s, until_s)) // 2
        assert offset_s_at(reference, middle_s) == segment.offset_s
        if segment.start_s > from_s:
            assert offset_s_at(reference, segment.start_s) == segment.offset_s
            assert offset_s_at(reference, segment.start_s - 1) == segment.before_s != segment.offset_s
        if segment.end_s < until_s:
            assert offset_s_at(reference, segment.end_s) == segment.after_s
        at_s = segment.end_s


@pytest.mark.slow
def test_every_zone_has_the_offsets_of_zoneinfo() -> None:
    for name in sorted(zone_names()):
        check_segments(name, instant(1890), instant(2060))


def test_rules_go_on_for_ever() -> None:
    for name in ("Europe/Berlin", "America/St_Johns", "Asia/Gaza", "Pacific/Chatham", "Europe/Dublin"):
        check_segments(name, instant(2390), instant(2410))
        check_segments(name, instant(9980), LAST_S)


@pytest.mark.slow
def test_changes_of_one_zone_are_days_apart() -> None:
    """The search relies on it: a change's gap or fold involves no third offset."""
    for name in sorted(zone_names()):
        at_s = instant(1890)
        while at_s < instant(2060):
            segment = named(name).segment_at(at_s)
            assert segment.end_s - segment.start_s > 3 * DAY_S, (name, segment)
            at_s = segment.end_s


def test_whole_minutes_from_1973_on() -> None:
    for name in sorted(zone_names()):
        segment = named(name).segment_at(instant(1973))
        while segment.end_s < instant(2038):
            segment = named(name).segment_at(segment.end_s)
            assert segment.start_s % 60 == segment.offset_s % 60 == 0, (name, segment)


def test_time_before_the_first_and_after_the_last_change_has_an_offset() -> None:
    tokyo = named("Asia/Tokyo")
    assert tokyo.segment_at(FIRST_S - 10**12) == tokyo.segment_at(FIRST_S)
    assert tokyo.segment_at(LAST_S).offset_s == 9 * 3600
    assert named("Europe/Berlin").segment_at(LAST_S).end_s > LAST_S


def test_the_years_of_a_rule_are_kept_within_a_bound() -> None:
    fresh = Zone("Europe/Berlin", read_zone_file("Europe/Berlin"))
    for year in range(2050, 2050 + RULE_YEARS_KEPT_MAX + 10):
        assert fresh.segment_at(instant(year) + 180 * DAY_S).offset_s == 7200
    assert len(fresh._rule_years) <= RULE_YEARS_KEPT_MAX


def test_local_time() -> None:
    berlin = named("Europe/Berlin")
    assert berlin.local(1_774_746_000) == datetime(2026, 3, 29, 3, 0)  # noqa: DTZ001
    assert berlin.local_text(1_774_746_000) == "Sun 2026-03-29 03:00:00 +02:00"
    assert named("Africa/Monrovia").local_text(0) == "Wed 1969-12-31 23:15:30 -00:44:30"


def test_an_unknown_name_is_no_zone() -> None:
    assert [zone(name) for name in ("", "Mars", "europe/berlin", "../zones", "Europe", "UTC ")] == [None] * 6


def test_pinning_turns_zoneinfo_away_from_the_machine() -> None:
    zoneinfo.reset_tzpath(["/usr/share/zoneinfo"])
    version = pin_tzdata()
    assert zoneinfo.TZPATH == ()
    assert version == tzdata_version()
    assert version[:4].isdigit()
    assert version[4:].isalpha()
    assert zoneinfo.ZoneInfo("Europe/Berlin") is zoneinfo.ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "year", "changes"),
    [
        ("EST5EDT,M3.2.0,M11.1.0", 2026, ["2026-03-08T07:00", "2026-11-01T06:00"]),
        ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2026, ["2026-04-04T15:00", "2026-10-03T15:30"]),
        ("IST-1GMT0,M10.5.0,M3.5.0/1", 2026, ["2026-03-29T01:00", "2026-10-25T01:00"]),
        ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, ["2026-03-28T00:00", "2026-10-23T23:00"]),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, ["2026-03-29T01:00", "2026-10-25T01:00"]),
        ("AAA0BBB,J60/0,J365", 2024, ["2024-03-01T00:00", "2024-12-31T01:00"]),
        ("AAA0BBB,J60/0,J365", 2026, ["2026-03-01T00:00", "2026-12-31T01:00"]),
        ("AAA0BBB,59/0,364", 2024, ["2024-02-29T00:00", "2024-12-30T01:00"]),
        ("AAA0BBB-1:30,59/0,364", 2026, ["2026-03-01T00:00", "2026-12-31T00:30"]),
    ],
)
def test_posix_rules(text: str, year: int, changes: list[str]) -> None:
    rule = parse_posix_rule(text)
    assert rule is not None
    assert [datetime.fromtimestamp(at_s, UTC).isoformat()[:16] for at_s, _ in rule.changes(year)] == changes


@pytest.mark.parametrize("text", ["", "UTC0", "<+0545>-5:45", "EST5EDT,0/0,J365/25"])
def test_posix_rules_that_never_change_again(text: str) -> None:
    assert parse_posix_rule(text) is None


@pytest.mark.parametrize("text", ["EST", "EST5EDT,M3.2,M11.1.0", "5", "EST5EDT,M3.2.0"])
def test_a_broken_database_is_noticed(text: str) -> None:
    with pytest.raises(ValueError, match="POSIX"):
        parse_posix_rule(text)


def test_a_file_of_another_format_is_noticed() -> None:
    with pytest.raises(ValueError, match="TZif"):
        parse_zone_file(b"PNG" + bytes(100))


def test_a_zone_whose_rule_begins_without_any_listed_change() -> None:
    rule = parse_posix_rule("AAA0BBB,M3.2.0,M11.1.0")
    bare = Zone("Test/Bare", ZoneFile(first_offset_s=0, changes=(), listed_until_s=None, rule=rule))
    assert [bare.segment_at(instant(2026) + day * DAY_S).offset_s for day in (10, 180, 360)] == [0, 3600, 0]

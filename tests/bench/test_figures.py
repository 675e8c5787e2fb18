"""What the bench computes from runs' records."""

import io
import json
import math

import pytest
from rich.console import Console

from bench.burst import burst_figures
from bench.failover import longest_gap_s
from bench.fairness import Spans, fairness_figures
from bench.figures import Figure, collect_figures, percentile
from bench.latency import Sample, latency_figures
from bench.report import Report
from bench.run import BenchSettings
from bench.sustained import Sustained, Window, next_window, window_figures

DUE = "2026-11-30T01:00:00.000Z"
DUE_S = 1796000400.0


def run(
    started: float, *, due: float = 0.0, state: str = "succeeded", attempt: int = 1, **fields: object
) -> dict[str, object]:
    """A run record whose times are seconds after DUE."""
    return {
        "due_at": at(due),
        "release_at": at(due),
        "started_at": at(started),
        "finished_at": at(started + 0.001),
        "state": state,
        "attempt": attempt,
        "attempts": [],
        **fields,
    }


def at(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"2026-11-30T01:00:{whole:02}.{milliseconds:03}Z"


@pytest.mark.parametrize(
    ("fraction", "value"), [(0.0, 1.0), (0.01, 1.0), (0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0)]
)
def test_a_percentile_is_a_measured_value(fraction: float, value: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], fraction) == value


def test_no_values_have_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_bursts_figures() -> None:
    runs = [run(started / 100) for started in range(100)] + [run(0, state="dead"), run(0.5, attempt=2)]
    figures = burst_figures(runs, DUE_S, 321.0)
    assert figures["start delay p50 (s)"] == pytest.approx(0.50, abs=0.011)
    assert figures["start delay max (s)"] == pytest.approx(0.99)
    assert figures["all finished after (s)"] == pytest.approx(0.991)
    assert (figures["not succeeded"], figures["more than one attempt"], figures["jobs created per s"]) == (1, 1, 321.0)


def test_missed_and_doubled_ticks_are_counted_tick_by_tick() -> None:
    window = Window(from_ms=int(DUE_S * 1000), to_ms=int(DUE_S * 1000) + 3000, every_ms=1000)
    whole = [run(0.1, due=0), run(1.1, due=1), run(2.1, due=2)]
    with_a_hole = [run(0.1, due=0), run(2.1, due=2)]
    with_a_double = [*whole, run(1.3, due=1)]
    only_skipped = [run(0, due=due, state="skipped") for due in (0, 1, 2)]
    figures = window_figures([whole, with_a_hole, with_a_double, only_skipped], window)
    assert (figures["ticks missed"], figures["ticks doubled"]) == (4, 1)
    assert figures["runs per s"] == pytest.approx(3.0)


def test_a_window_begins_with_a_tick() -> None:
    window = next_window(Sustained(seconds=20, every_s=10), 1_000_001)
    assert list(window.ticks_ms) == [1_010_000, 1_020_000]


def test_the_longest_gap_counts_lost_attempts_too() -> None:
    lost_first = run(5.0, attempts=[{"started_at": at(2.0)}, {"started_at": None}])
    assert longest_gap_s([run(0.0), run(0.5), lost_first]) == pytest.approx(3.0)


def test_commits_are_told_in_disk_writes_and_round_trips() -> None:
    usual = Sample(leader_ms=4.0, follower_ms=6.0, fdatasync_ms=1.5, round_trip_ms=0.5)
    slow = Sample(leader_ms=40.0, follower_ms=60.0, fdatasync_ms=15.0, round_trip_ms=5.0)
    figures = latency_figures([usual] * 98 + [slow] * 2)
    assert (figures["commit from the leader p50 (ms)"], figures["commit from the leader p99 (ms)"]) == (4.0, 40.0)
    assert (figures["commit from a follower p50 (ms)"], figures["commit from a follower p99 (ms)"]) == (6.0, 60.0)
    assert (figures["fdatasync p50 (ms)"], figures["loopback round trip p50 (ms)"]) == (1.5, 0.5)
    assert figures["leader's p50 / (fdatasync + round trip)"] == 2.0
    assert figures["follower's p50 / (fdatasync + round trip)"] == 3.0


def test_a_report_is_a_table_and_json_with_the_same_figures() -> None:
    rounds = [
        {"start delay p99 (s)": 0.5, "jobs created per s": 2000.0},
        {"start delay p99 (s)": 3.0, "jobs created per s": 1.0},
    ]
    figures = collect_figures(
        "B1", [*rounds, {"start delay p99 (s)": 0.7, "jobs created per s": 9.0}], {"start delay p99 (s)": 0.6}
    )
    report = Report(machine={"cores": "2", "commit": "abc"}, settings={"rounds": "3"}, figures=figures)
    as_json = json.loads(json.dumps(report.as_json()))
    assert as_json["figures"][0] == {
        "work": "B1",
        "figure": "start delay p99 (s)",
        "median": 0.7,
        "min": 0.5,
        "max": 3.0,
        "values": [0.5, 3.0, 0.7],
        "must": 0.6,
        "holds": False,
    }
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(report.as_table())
    text = console.export_text()
    assert "0.700" in text
    assert "NO" in text
    assert "commit: abc" in text


def test_a_figure_without_a_bar_neither_holds_nor_fails() -> None:
    assert Figure(work="B1", name="x", values=(1.0,)).holds is None


def test_each_figure_is_measured_at_least_three_times() -> None:
    assert BenchSettings().rounds == 3


def test_fairness_compares_the_single_team_alone_with_it_beside_the_crowd() -> None:
    """(M9, B8)"""
    alone = [run(second + 0.01, due=second) for second in range(20)]
    between = [run(25.0, due=22)]
    beside = [run(second + 0.02, due=second) for second in range(30, 40)]
    figures = fairness_figures([*alone, *between, *beside], Spans(DUE_S, DUE_S + 20, DUE_S + 30, DUE_S + 40), 1000)
    assert figures["start delay p99 alone (s)"] == pytest.approx(0.01)
    assert figures["start delay p99 beside the crowd (s)"] == pytest.approx(0.02)
    assert figures["beside to alone"] == pytest.approx(2)
    assert (figures["runs beside the crowd"], figures["the crowd's runs per s"]) == (10, 100)

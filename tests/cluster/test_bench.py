"""`horae bench` itself, with tiny numbers: real nodes, every work, and figures that make sense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.fairness import Fairness
from bench.local_cluster import ENTRY
from bench.run import BenchSettings, run_bench


def test_the_bench_measures_all_its_works(tmp_path: Path) -> None:
    small = [
        *("B1", "B2", "B3", "B6", "B7"),
        "--runs",
        "1",
        "--jobs",
        "50",
        "--callbacks",
        "50",
        "--rate",
        "20",
        "--seconds",
        "5",
        "--failover-seconds",
        "24",
        "--writes",
        "20",
    ]
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, "bench", *small, "--directory", str(tmp_path), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    figures = {(figure["work"], figure["figure"]): figure["median"] for figure in report["figures"]}
    assert {work for work, _ in figures} == {"B1", "B2", "B3", "B6", "B7"}
    assert 0 <= figures["B1", "start delay p50 (s)"] <= figures["B1", "start delay max (s)"] < 5
    assert figures["B1", "not succeeded"] == 0
    assert (figures["B2", "not succeeded"], figures["B2", "requests beyond one a run"]) == (0, 0)
    assert figures["B2", "callbacks per s"] > 0
    assert figures["B3", "runs per s"] == 20
    for work in ("B3", "B6"):
        assert (figures[work, "ticks missed"], figures[work, "ticks doubled"]) == (0, 0)
    assert figures["B6", "longest gap without a start (s)"] < 10
    for name in ("commit from the leader p50 (ms)", "commit from a follower p50 (ms)"):
        assert figures["B7", "fdatasync p50 (ms)"] < figures["B7", name] < 1000
    assert 0 < figures["B7", "loopback round trip p50 (ms)"] < 100
    assert set(report["machine"]) >= {"machine", "cores", "commit", "disk"}
    assert list(tmp_path.iterdir()) == []


async def test_the_bench_measures_fairness(tmp_path: Path) -> None:
    """(M9, B8) A small crowd on real nodes, which the single team's runs are not kept waiting by."""
    fairness = Fairness(jobs=60, hold_s=0.5, alone_s=3.0, lead_s=2.0)
    settings = BenchSettings(works=("B8",), rounds=1, fairness=fairness, directory=tmp_path)
    report = await run_bench(settings, lambda text: None)
    figures = {figure.name: figure.median for figure in report.figures}
    assert 0 <= figures["start delay p99 alone (s)"] < 5
    assert figures["the crowd's runs per s"] > 0

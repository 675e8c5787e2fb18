"""Seeds on several processors: the same verdicts in the same order, and none is lost with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from chaos.campaign import Campaign, SeedVerdict, failed_seed
from chaos.seed_workers import in_workers, run_campaign
from node.clock import SystemClock

ROOT = Path(__file__).resolve().parent.parent.parent
CAMPAIGN = Campaign(first_seed=5, seeds=3, nodes=3, steps=0)
DEADLY = 1
WAIT_S = 60.0


def judge(seed: int) -> SeedVerdict:
    """Called in a worker."""
    if seed == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return failed_seed(seed, CAMPAIGN, f"judged {seed}")


@pytest.mark.slow
def test_a_worker_that_dies_is_its_own_seed_s_failure() -> None:
    verdicts = list(in_workers(deque(range(3)), judge, CAMPAIGN, 2))
    assert [verdict.seed for verdict in verdicts] == list(range(3))
    for verdict in verdicts:
        [violation] = verdict.violations
        died = "the process that simulated it died"
        assert violation.what == (died if verdict.seed == DEADLY else f"judged {verdict.seed}")
        assert verdict.replay == f"horae chaos sim --seed {verdict.seed} --nodes 3 --steps 0"


@pytest.mark.slow
def test_workers_say_what_one_process_says() -> None:
    here, there = (list(run_campaign(CAMPAIGN, SystemClock().monotonic, jobs=jobs)) for jobs in (1, 2))
    assert [(one.seed, one.trace, one.violations) for one in here] == [
        (one.seed, one.trace, one.violations) for one in there
    ]
    assert [one.seed for one in here] == [5, 6, 7]


def test_a_simulation_that_raises_is_a_failed_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> SeedVerdict:
        raise ValueError("planted")

    monkeypatch.setattr("chaos.seed_workers.run_seed", broken)
    [verdict, *_] = run_campaign(CAMPAIGN, SystemClock().monotonic)
    assert [violation.what for violation in verdict.violations] == ["the simulation broke down: ValueError: planted"]


@pytest.mark.slow
def test_ctrl_c_ends_all_of_it() -> None:
    command = [sys.executable, "-m", "node.cli", "chaos", "sim", "--seeds", "10", "--steps", "0", "--jobs", "2"]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seed 0: ok")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=WAIT_S)  # to the end: its workers hold the same pipe
        assert process.returncode == 1

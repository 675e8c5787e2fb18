"""What a hand-out costs while tens of thousands of runs wait: `python -m tests.statemachine.handout_cost` prints CPU
microseconds.

One session has one slot; each apply finishes the run in it, and hands out the next. What is measured is that whole
apply, so a plain queue (one team, nothing in its way) is the measure of the others.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from statemachine.commands import Command, OpenSession, PutJob, PutTeam, RenewSession, RunNow, Withdraw
from statemachine.records import Job, NoopTarget, Team
from tests.statemachine.apply_cost import START_MS, Bench, finishes, spread

WAITING = 50_000
TEAMS = 1_000
ROUNDS = 300
BATCH = 1_000


def a_job(number: int, team: str, **fields: Any) -> PutJob:
    usual = {"target": NoopTarget(), "created_ms": START_MS, "updated_ms": START_MS}
    job = Job(job_id=f"J{number:05}", name=f"job {number}", team=team, **(usual | fields))
    return PutJob(now_ms=START_MS, job=job)


def queue(bench: Bench, count: int, job_of: Callable[[int], int]) -> None:
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        bench.apply(
            [[RunNow(now_ms=START_MS, job_id=f"J{job_of(number):05}", nonce=f"{number}") for number in numbers]]
        )


def plain(bench: Bench) -> None:
    """One team, nothing in its way."""
    bench.apply([[a_job(0, "t")]])
    queue(bench, WAITING, lambda number: 0)


def many_teams(bench: Bench) -> None:
    """A thousand teams with fifty runs each."""
    bench.apply([[a_job(number, f"team{number}") for number in range(TEAMS)]])
    queue(bench, WAITING, lambda number: number % TEAMS)


def one_blocked_team(bench: Bench) -> None:
    """All but a few are of a team without room, which stands before the free one."""
    bench.apply([[PutTeam(now_ms=START_MS, team=Team(team="a", max_concurrent=0)), a_job(0, "a"), a_job(1, "b")]])
    queue(bench, WAITING, lambda number: 0)
    queue_more(bench)


def one_blocked_need(bench: Bench) -> None:
    """All but a few want a tag that no node has, in a thousand teams, at a higher priority."""
    wanting = [a_job(number + 2, f"team{number}", run_on={"zone": "x"}, priority=9) for number in range(TEAMS)]
    bench.apply([[a_job(1, "b"), *wanting]])
    queue(bench, WAITING, lambda number: 2 + number % TEAMS)
    queue_more(bench)


def thousand_blocked_teams(bench: Bench) -> None:
    """A thousand teams without room, each with fifty runs: a seek for each of them, up to FULL_TEAMS_MAX an apply."""
    names = [f"a{number}" for number in range(TEAMS)]
    bench.apply([[PutTeam(now_ms=START_MS, team=Team(team=name, max_concurrent=0)) for name in names]])
    bench.apply([[a_job(1, "b"), *(a_job(number + 2, name) for number, name in enumerate(names))]])
    queue(bench, WAITING, lambda number: 2 + number % TEAMS)
    queue_more(bench)


def queue_more(bench: Bench) -> None:
    """The few that can run."""
    numbers = range(ROUNDS + 10)
    bench.apply([[RunNow(now_ms=START_MS, job_id="J00001", nonce=f"free{number}") for number in numbers]])


def measure(name: str, fill: Callable[[Bench], None]) -> None:
    with tempfile.TemporaryDirectory() as path:
        bench = Bench(path)
        fill(bench)
        room = {"slots": 1, "ahead": 0, "http": "", "raft": "", "version": "1", "tzdata": "1"}
        events, _ = bench.apply([[OpenSession(now_ms=START_MS, node="n1", incarnation=1, **room)]])
        spent_us = []
        for _ in range(ROUNDS):
            commands: Sequence[Command] = finishes(events, START_MS)
            # Behind more full teams than one apply passes over, an apply may find nobody yet; the next one goes on.
            events, spent_s = bench.apply([commands or [Withdraw(now_ms=START_MS, run_id="none", token=0)]])
            spent_us.append(spent_s * 1e6)
        renewal = RenewSession(now_ms=START_MS, node="n1", incarnation=1, renewal=1)
        _, renewal_s = bench.apply([[renewal]])
        print(f"{name:>22}: {spread(spent_us)} µs a Finish and its hand-out; a renewal {renewal_s * 1e6:.0f} µs")


CASES = (plain, many_teams, one_blocked_team, one_blocked_need, thousand_blocked_teams)

if __name__ == "__main__":
    for case in CASES:
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            measure(case.__name__, case)

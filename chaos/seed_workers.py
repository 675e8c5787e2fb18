"""The seeds of a campaign on several processors: a process each, that runs one seed after another."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

from chaos.campaign import Campaign, SeedVerdict, failed_seed, run_seed

AHEAD = 4
"""Seeds that each worker may be ahead of the one that is waited for: verdicts come in the order of the seeds."""

Judge = Callable[[int], SeedVerdict]
Underway = tuple[int, Future[SeedVerdict]]


def run_campaign(campaign: Campaign, monotonic: Callable[[], float], *, jobs: int = 1) -> Generator[SeedVerdict]:
    """The verdicts in the order of the seeds. `jobs` processes; one: in this process. A seed whose simulation raises,
    or kills its process, has failed."""
    seeds = range(campaign.first_seed, campaign.first_seed + campaign.seeds)
    judge = partial(_judge, campaign, monotonic)
    return (judge(seed) for seed in seeds) if jobs == 1 else in_workers(deque(seeds), judge, campaign, jobs)


def _judge(campaign: Campaign, monotonic: Callable[[], float], seed: int) -> SeedVerdict:
    try:
        return run_seed(seed, campaign, monotonic)
    except Exception as error:
        return failed_seed(seed, campaign, f"the simulation broke down: {type(error).__name__}: {error}")


def in_workers(seeds: deque[int], judge: Judge, campaign: Campaign, jobs: int) -> Generator[SeedVerdict]:
    """`judge` is called in the workers."""
    while seeds:
        suspects: list[int] = []
        with _workers(jobs) as workers:
            underway: deque[Underway] = deque()
            while (seeds or underway) and not suspects:
                try:
                    while seeds and len(underway) < AHEAD * jobs:
                        underway.append((seeds[0], workers.submit(_work, judge, seeds[0])))
                        seeds.popleft()
                    verdict = underway[0][1].result()
                except BrokenProcessPool:
                    suspects = [seed for seed, _ in underway] or [seeds.popleft()]
                else:
                    underway.popleft()
                    yield verdict
        for seed in suspects:
            yield _alone(seed, judge, campaign)


def _alone(seed: int, judge: Judge, campaign: Campaign) -> SeedVerdict:
    """A worker died, and with it all that were at work: which seed was it?"""
    with _workers(1) as workers:
        try:
            return workers.submit(_work, judge, seed).result()
        except BrokenProcessPool:
            return failed_seed(seed, campaign, "the process that simulated it died")


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Interrupted or left early, no further seed starts. Those under way are ended by the Ctrl-C that they hear too."""
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Between two seeds a Ctrl-C is the parent's business."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(judge: Judge, seed: int) -> SeedVerdict:
    """Within a seed a Ctrl-C ends it in order, so that its files go."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return judge(seed)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Which of a run's faults does it take? Delta debugging (ddmin, Zeller and Hildebrandt 2002) over their numbers: a
fault's parameters depend on its number alone, so that those that stay are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chaos.campaign import Campaign, SeedVerdict
from chaos.seed_workers import run_campaign

TRIES_MAX = 60
"""Runs that shrinking one schedule may cost."""


class _Exhausted(Exception):
    """No more tries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shrunk:
    verdict: SeedVerdict
    """Of the smallest schedule that still fails."""
    faults: int
    tries: int
    minimal: bool
    """Without any one of its faults it holds; False: the tries were used up before that was known."""


def shrink_seed(failed: SeedVerdict, campaign: Campaign, monotonic: Callable[[], float]) -> Shrunk:
    """`failed` is the verdict of a seed of this campaign. What is found breaks one of the same promises."""
    promises = {violation.promise for violation in failed.violations}
    smallest = failed

    def fails(numbers: Sequence[int]) -> bool:
        nonlocal smallest
        one = replace(campaign, first_seed=failed.seed, seeds=1, only=tuple(numbers))
        verdict = next(iter(run_campaign(one, monotonic)))
        if promises.isdisjoint(violation.promise for violation in verdict.violations):
            return False
        smallest = verdict
        return True

    numbers, tries, minimal = shrink(campaign.numbers, fails)
    return Shrunk(verdict=smallest, faults=len(numbers), tries=tries, minimal=minimal)


def shrink(
    numbers: Sequence[int], fails: Callable[[Sequence[int]], bool], *, tries_max: int = TRIES_MAX
) -> tuple[list[int], int, bool]:
    """A small part of `numbers`, which is known to fail, that fails too; the tries it took; whether no single number
    can be left out of it."""
    tried: dict[tuple[int, ...], bool] = {}

    def still_fails(part: Sequence[int]) -> bool:
        key = tuple(part)
        if key not in tried:
            if len(tried) >= tries_max:
                raise _Exhausted
            tried[key] = fails(part)
        return tried[key]

    smallest = list(numbers)
    try:
        if not smallest or still_fails([]):
            return [], len(tried), True
        parts = 2
        while len(smallest) > 1:
            found = next((part for part in _candidates(smallest, parts) if still_fails(part)), None)
            if found is None and parts >= len(smallest):
                break
            if found is None:
                parts = min(2 * parts, len(smallest))
            else:
                parts = 2 if len(found) * parts <= len(smallest) + parts else max(parts - 1, 2)
                smallest = found
    except _Exhausted:
        return smallest, len(tried), False
    return smallest, len(tried), True


def _candidates(numbers: list[int], parts: int) -> list[list[int]]:
    """The parts, and what is left without each."""
    size = -(-len(numbers) // parts)
    starts = range(0, len(numbers), size)
    chosen = [numbers[start : start + size] for start in starts]
    rests = [numbers[:start] + numbers[start + size :] for start in starts]
    return chosen + (rests if len(chosen) > 2 else [])

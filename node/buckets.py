"""Which node fires which bucket's ticks: pure, balanced within one, moving as few buckets as it can."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from statemachine.commands import BucketMove
from statemachine.records import BucketOwner


def plan_moves(owners: Sequence[BucketOwner], nodes: Collection[str]) -> tuple[BucketMove, ...]:
    """The moves after which every bucket has an owner among `nodes` and no two nodes differ by more than one bucket.

    A bucket moves only when its owner is not among `nodes` or holds more than its share. Without nodes nothing moves:
    an owner that may come back is worth more than none."""
    if not nodes:
        return ()
    held = _held(owners, nodes)
    quotas = _quotas(held, len(owners))
    homeless = [bucket for bucket, owner in enumerate(owners) if owner.node not in held]
    for node, buckets in held.items():
        homeless.extend(buckets[quotas[node] :])
    return tuple(
        BucketMove(bucket=bucket, expected_epoch=owners[bucket].epoch, node=node)
        for bucket, node in zip(sorted(homeless), _vacancies(held, quotas), strict=True)
    )


def _held(owners: Sequence[BucketOwner], nodes: Collection[str]) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {node: [] for node in sorted(nodes)}
    for bucket, owner in enumerate(owners):
        if owner.node in held:
            held[owner.node].append(bucket)
    return held


def _quotas(held: Mapping[str, Sequence[int]], buckets: int) -> dict[str, int]:
    """Every node's share; those that hold most already get the ones left over, so that fewer move."""
    share, left_over = divmod(buckets, len(held))
    richest_first = sorted(held, key=lambda node: (-len(held[node]), node))
    return {node: share + (rank < left_over) for rank, node in enumerate(richest_first)}


def _vacancies(held: Mapping[str, Sequence[int]], quotas: Mapping[str, int]) -> list[str]:
    return [node for node, buckets in held.items() for _ in range(quotas[node] - min(len(buckets), quotas[node]))]

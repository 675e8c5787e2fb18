"""Slow targets: one that times out often must not hold every slot of the cluster.

A target (the host of a URL, an image, a program) has a score that rises with each attempt that timed out, or nearly
did, and falls with each that succeeded in time. While the score is high, the target's runs wait in lanes of their own,
and hold no more than a share of the slots. Targets without trouble have no score, and cost nothing.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import msgspec

from statemachine.codec import decode_slow_held, decode_target_score, encode
from statemachine.keys import pair_prefix
from statemachine.limits import (
    SLOW_BUCKETS,
    SLOW_FROM,
    SLOW_SHARE,
    SLOW_SHARE_ALL,
    SLOW_UNTIL,
    TARGET_POINTS_MAX,
    URL_LENGTH_MAX,
)
from statemachine.records import CommandTarget, ContainerTarget, HttpTarget, Target, TargetScore
from statemachine.tables import SLOW_HELD_KEY, Tables


def target_name(target: Target) -> str | None:
    """What a target's runs have in common that may be slow; None: they run in no time."""
    if isinstance(target, HttpTarget):
        return f"host {_host_of(target.url)}"
    if isinstance(target, ContainerTarget):
        return f"image {target.image}"
    if isinstance(target, CommandTarget):
        return f"program {''.join(target.argv[:1])}"
    return None


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return url


def slow_bucket(name: str) -> int:
    """Slow targets share their lanes and their room by this number, so that there is an end to how many lanes there
    are. Who is not slow has nothing to do with it."""
    return crc32(name.encode()) % SLOW_BUCKETS


class Targets:
    """The scores that one apply touches, and what the runs of slow targets hold."""

    def __init__(self, transaction: Any, tables: Tables) -> None:
        self._transaction = transaction
        self._tables = tables
        self._scores: dict[str, TargetScore] = {}
        self._changed: set[str] = set()
        self._has_any: bool | None = None
        self._held: dict[int, int] | None = None
        self._is_held_changed = False

    def has_any(self) -> bool:
        """Whether any target has a score."""
        if self._has_any is None:
            self._has_any = self._transaction.stat(self._tables.targets)["entries"] > 0
        return self._has_any

    def is_slow(self, name: str) -> bool:
        return self.has_any() and self._score(name).slow

    def add(self, name: str, points: int) -> None:
        """Raise (or lower) a target's score."""
        before = self._score(name)
        score = min(max(before.score + points, 0), TARGET_POINTS_MAX)
        slow = score >= SLOW_FROM or (before.slow and score > SLOW_UNTIL)
        if (score, slow) != (before.score, before.slow):
            self._scores[name] = msgspec.structs.replace(before, score=score, slow=slow)
            self._changed.add(name)
            self._has_any = True

    def hold(self, bucket: int, change: int) -> None:
        """A run of a slow lane was claimed (+1), or its claim has ended (-1)."""
        held = self._held_by_bucket()
        held[bucket] = held.get(bucket, 0) + change
        assert held[bucket] >= 0
        self._is_held_changed = True

    def has_room(self, bucket: int, slots: int) -> bool:
        """Whether another run of the bucket's targets may hold one of the cluster's slots."""
        held = self._held_by_bucket()
        if held.get(bucket, 0) >= max(1, slots // SLOW_SHARE):
            return False
        return sum(held.values()) < max(1, slots // SLOW_SHARE_ALL)

    def flush(self) -> None:
        for name in sorted(self._changed):
            score = self._scores[name]
            if score.score:
                self._transaction.put(pair_prefix(name), encode(score), db=self._tables.targets)
            else:
                self._transaction.delete(pair_prefix(name), db=self._tables.targets)
        if self._is_held_changed and self._held is not None:
            held = {bucket: count for bucket, count in sorted(self._held.items()) if count}
            self._transaction.put(SLOW_HELD_KEY, encode(held), db=self._tables.meta)

    def _score(self, name: str) -> TargetScore:
        score = self._scores.get(name)
        if score is None:
            score = read_score(self._transaction, self._tables, name) or TargetScore(target=name[:URL_LENGTH_MAX])
            self._scores[name] = score
        return score

    def _held_by_bucket(self) -> dict[int, int]:
        if self._held is None:
            self._held = read_slow_held(self._transaction, self._tables)
        return self._held


def read_score(transaction: Any, tables: Tables, name: str) -> TargetScore | None:
    value = transaction.get(pair_prefix(name), db=tables.targets)
    return None if value is None else decode_target_score(value)


def read_slow_held(transaction: Any, tables: Tables) -> dict[int, int]:
    """How many claims the runs of slow targets hold, by bucket."""
    value = transaction.get(SLOW_HELD_KEY, db=tables.meta)
    return {} if value is None else decode_slow_held(value)

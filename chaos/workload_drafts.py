"""The jobs that clients ask for: what ticks often, what ticks once, what ticks by a wall clock near its oddities; and
what no node may take."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from node.interface import HttpTarget, JobDraft, NoopTarget, TeamDraft

PERIODS_S = (1, 2, 3, 5)
SCRIPTS = ("quick", "quick", "slow", "hang", "failing", "deadly")
ATTEMPT_S = 4.0
"""The timeout of an attempt."""
CONTESTED_NAMES = 0.2
"""Part of the jobs that get a name which others want too."""
CONTESTED_NAMES_MAX = 3
CALENDAR = 0.15
ONCE = 0.1
"""Parts of the jobs that tick by a wall clock, and once."""
ONCE_IN_S = (-1.0, 15.0)
"""How far a one-off is away when it is asked for: it may be a little late."""
LIMITED = 0.15
"""Part of the jobs that belong to the team with a quota."""
LIMITED_TEAM = "limited"
LIMITED_PERIODS_S = (3, 5)
QUOTAS = (1, 2, 3, None)
BY_THE_WALL: tuple[tuple[str, str], ...] = (
    ("* * * * *", "UTC"),
    ("*/2 * * * *", "Asia/Kathmandu"),  # a quarter of an hour off
    ("30 2 * * *", "Europe/Berlin"),  # in the gap, and twice in the fold
    ("0 2,3 * * *", "Europe/Berlin"),  # both sides of both
    ("* 2 * * *", "Europe/Berlin"),  # none in the gap, every minute of both hours of the fold
    ("*/5 * * * *", "Europe/London"),
    ("0 0 29 2 *", "UTC"),
    ("0 0 1 1 *", "UTC"),
    ("@daily", "UTC"),
    ("@monthly", "UTC"),
    ("30 * * * *", "America/St_Johns"),  # half an hour off
)
"""Expression and zone: something happens to each within the first minute of one of the epochs that are simulated, where
Europe's clocks change, a year begins, and a leap day does."""
TOO_MUCH: tuple[Mapping[str, Any], ...] = (
    {"name": "n" * 10_000},
    {"labels": {f"label-{number}": "x" for number in range(1000)}},
    {"args": "x" * 200_000},
    {"timeout_s": 1e9},
    {"max_retries": 10**6},
    {"priority": 10},
    {"jitter_s": -1.0},
    {"schedule": "@every 0s"},
    {"schedule": "* * * * *", "tz": "Europe/Nowhere"},
    {"schedule": "0 0 30 2 *", "tz": "UTC"},
)
"""Changes after which a draft is beyond a limit."""


class Drafts:
    """Of one client, whose name is part of its jobs' names. `epoch_ms`: unix time at 0 s of the experiment."""

    def __init__(self, client: str, dice: random.Random, epoch_ms: int) -> None:
        self._client = client
        self._dice = dice
        self._epoch_ms = epoch_ms

    def good(self, serial: int, now_s: float) -> JobDraft:
        script = self._dice.choice(SCRIPTS)
        noop = self._dice.random() < 0.4
        if self._dice.random() < LIMITED:
            return self._limited(serial)
        return JobDraft(
            name=self._name(serial),
            target=NoopTarget() if noop else HttpTarget(url=f"http://sink.example/{script}"),
            timeout_s=ATTEMPT_S,
            max_retries=self._dice.choice([0, 2]),
            backoff_base_s=1.0,
            priority=self._dice.choice([2, 5, 9]),
            overlap_policy=self._dice.choice(["allow", "allow", "skip", "queue_one", "queue_all", "replace"]),
            jitter_s=self._dice.choice([0.0, 0.0, 0.7]),
            misfire_policy=self._dice.choice(["skip", "run_once"]),
            misfire_grace_s=self._dice.choice([2.0, 60.0]),
            max_concurrent=self._dice.choice([None, None, None, 2]),
            start_deadline_s=self._dice.choice([None, None, None, 6.0]),
            run_timeout_s=self._dice.choice([None, None, None, 9.0]),
            **self._times(now_s),
        )

    def _limited(self, serial: int) -> JobDraft:
        """Of a team that has a quota, and long runs: it is full now and then, and what it is behind with soon done."""
        return JobDraft(
            name=f"{self._client}-{serial}",
            team=LIMITED_TEAM,
            target=HttpTarget(url="http://sink.example/slow"),
            timeout_s=ATTEMPT_S,
            max_retries=1,
            backoff_base_s=1.0,
            schedule=f"@every {self._dice.choice(LIMITED_PERIODS_S)}s",
        )

    def bad(self, serial: int, now_s: float) -> JobDraft:
        """Too much of something, and nothing else wrong with it."""
        draft = self.good(serial, now_s)
        whenever = msgspec.structs.replace(draft, name=f"{self._client}-too-much-{serial}", schedule="@every 5s")
        once_less = msgspec.structs.replace(whenever, run_at=None, tz=None)
        return msgspec.structs.replace(once_less, **self._dice.choice(TOO_MUCH))

    def other(self, draft: JobDraft) -> JobDraft:
        """The same but for a detail."""
        return msgspec.structs.replace(draft, timeout_s=draft.timeout_s + 1.0)

    def quota(self) -> TeamDraft:
        return TeamDraft(max_concurrent=self._dice.choice(QUOTAS), weight=self._dice.choice([1, 5]))

    def changed(self, draft: JobDraft) -> JobDraft:
        """A new definition with the same ticks."""
        return msgspec.structs.replace(
            draft,
            priority=self._dice.choice([2, 5, 9]),
            max_retries=self._dice.choice([0, 1, 2]),
            misfire_grace_s=self._dice.choice([2.0, 60.0]),
            labels={"changed": str(self._dice.randrange(3))},
        )

    def _name(self, serial: int) -> str:
        """Its own, or one that other clients want too."""
        if self._dice.random() < CONTESTED_NAMES:
            return f"contested-{self._dice.randrange(CONTESTED_NAMES_MAX)}"
        return f"{self._client}-{serial}"

    def _times(self, now_s: float) -> dict[str, Any]:
        which = self._dice.random()
        if which < ONCE:
            at_ms = self._epoch_ms + round((now_s + self._dice.uniform(*ONCE_IN_S)) * 1000)
            return {"run_at": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")}
        if which < ONCE + CALENDAR:
            expression, tz = self._dice.choice(BY_THE_WALL)
            return {"schedule": expression, "tz": tz}
        return {"schedule": f"@every {self._dice.choice(PERIODS_S)}s"}

"""Whom a job or a team tells what becomes of runs: a part of their definitions."""

from __future__ import annotations

from typing import Literal

import msgspec

NotifyEvent = Literal["dead", "failed", "recovered", "late", "skipped"]
"""dead: a run used up its attempts. failed: an attempt failed. recovered: a run succeeded after a failure that was
told. late: an attempt started long after its time. skipped: a tick was not run, and nobody asked for that."""


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told what of a job's runs."""

    on: tuple[NotifyEvent, ...] = ("dead", "recovered")
    url: str = ""
    threshold: int = 1
    """Failures in a row before one is told: dead runs for `dead`, failed attempts for `failed`."""
    silence_s: float = 0.0
    """An event that was told is not told again within this time."""
    late_s: float = 60.0

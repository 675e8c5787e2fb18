"""The commands about what becomes of ended runs: notifications (outbox.py) and retention (retention.py)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from statemachine.command_types import Command, Count, JobId, Reason, RunId, TimeMs
from statemachine.limits import PRUNED_RUNS_MAX


class ReportNotification(Command, frozen=True, kw_only=True, tag="report_notification"):
    """A try to deliver the notification at this place of the outbox has ended. error None: the receiver took it, and
    it leaves. Else it is tried again after a while, or leaves undelivered after the last try. A repeat finds it gone
    from there (`unknown_notification`)."""

    at_ms: TimeMs
    number: Count
    error: Reason | None = None


class PruneItem(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What of a job, as it is in this version (of a deleted one: was last), may be forgotten."""

    job_id: JobId
    version: Count
    run_ids: Annotated[tuple[RunId, ...], Meta(max_length=PRUNED_RUNS_MAX)] = ()
    versions: bool = False
    """Its earlier definitions of which no run is left."""
    job: bool = False
    """All that is left of it: it was deleted, and has no runs any more."""


class PruneRuns(Command, frozen=True, kw_only=True, tag="prune_runs"):
    """Forget runs that are over, PRUNED_RUNS_MAX in all. What must stay, does."""

    items: Annotated[tuple[PruneItem, ...], Meta(max_length=PRUNED_RUNS_MAX)]

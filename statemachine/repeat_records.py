"""Records by which what was asked before is known again."""

from __future__ import annotations

from statemachine.records import Record


class IdempotencyEntry(Record, frozen=True, kw_only=True):
    """What an idempotency key of a team made."""

    digest: bytes
    job_id: str
    created_ms: int
    run_id: str | None = None
    """The key was that of a run-now: the run it made."""


class Proposer(Record, frozen=True, kw_only=True):
    """How far a proposer has come: it will never ask again for a result at or below `acknowledged`."""

    incarnation: int
    acknowledged: int

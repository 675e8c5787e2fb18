"""The commands about backfills (backfills.py)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from statemachine.command_types import Command, Count, JobId, NodeId, Reason, Reply, TimeMs
from statemachine.definition_commands import Digest, IdempotencyKey
from statemachine.limits import ARGS_BYTES_MAX, BACKFILL_SLICE_MAX, NONCE_LENGTH_MAX
from statemachine.records import OverlapPolicy

BackfillId = Annotated[str, Meta(min_length=1, max_length=NONCE_LENGTH_MAX)]


class StartBackfill(Command, frozen=True, kw_only=True, tag="start_backfill"):
    """Run a job for each of its ticks from `from_ms` to before `to_ms`, which is past. The id is made of letters,
    digits, '_' and '-'; with an idempotency key, as of RunNow."""

    backfill_id: BackfillId
    job_id: JobId
    from_ms: TimeMs
    to_ms: TimeMs
    args: Annotated[bytes, Meta(max_length=ARGS_BYTES_MAX)] | None = None
    overlap_policy: OverlapPolicy | None = None
    """Of its runs. None: `allow` if that is the job's, else `queue_all`."""
    idempotency_key: IdempotencyKey | None = None
    body_digest: Digest = b""


class StepBackfill(Command, frozen=True, kw_only=True, tag="step_backfill"):
    """Make the next runs of a backfill: a compare-and-set on where it stands, by the owner of the job's bucket.
    `due_ms` are the ticks from there on, in order, and `next_ms` is where to go on (None: there are no more)."""

    node: NodeId
    epoch: Count
    backfill_id: BackfillId
    job_version: Count
    expected_ms: TimeMs | None
    due_ms: Annotated[tuple[TimeMs, ...], Meta(max_length=BACKFILL_SLICE_MAX)] = ()
    next_ms: TimeMs | None = None


class CancelBackfill(Command, frozen=True, kw_only=True, tag="cancel_backfill"):
    """Make no further runs of a backfill, and end those that are not over."""

    backfill_id: BackfillId
    reason: Reason | None = None


class BackfillReply(Reply, frozen=True, kw_only=True, tag="backfill"):
    """code: ok | existing | idempotency_conflict | unknown_job | unknown_backfill | backfills_limit | not_due |
    stale_epoch | stale_version | backlog | illegal_state | clock_off."""

    backfill_id: str | None = None

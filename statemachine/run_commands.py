"""The commands that begin, go on with or end a run without its holder."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from statemachine.command_types import Command, Count, JobId, Reason, RunId, TimeMs
from statemachine.limits import ARGS_BYTES_MAX, DIGEST_BYTES_MAX, IDEMPOTENCY_KEY_LENGTH_MAX
from statemachine.records import OverlapPolicy


class RunNow(Command, frozen=True, kw_only=True, tag="run_now"):
    """Make a manual run, due now. Repeating (job, now_ms, nonce) answers the same run. `nonce` is made of letters,
    digits, '_' and '-'. Overlap is judged at once, by `overlap_policy` if that is set: the run may be made as
    skipped(overlap). An idempotency key
    (scoped to the job's team) with the same body digest answers the first run again (`existing`); with another digest
    it is refused (`idempotency_conflict`)."""

    job_id: JobId
    nonce: str
    args: Annotated[bytes, Meta(max_length=ARGS_BYTES_MAX)] | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=IDEMPOTENCY_KEY_LENGTH_MAX)] | None = None
    body_digest: Annotated[bytes, Meta(max_length=DIGEST_BYTES_MAX)] = b""
    overlap_policy: OverlapPolicy | None = None


class Release(Command, frozen=True, kw_only=True, tag="release"):
    """A scheduled run's time has come (overlap is judged now), or a retry fell due. Refused unless `token` is the
    run's; `clock_off` if its time is too far ahead of the cluster's clock."""

    run_id: RunId
    token: Count


class Deadline(Command, frozen=True, kw_only=True, tag="deadline"):
    """A run's deadline has passed: it is skipped(deadline) if it has not begun, else it ends dead. `no_deadline` if it
    has another or none, `clock_off` if it is still to come by the cluster's clock."""

    run_id: RunId
    at_ms: TimeMs


class Redrive(Command, frozen=True, kw_only=True, tag="redrive"):
    """Try a dead run anew, by the job's current definition and with its number of attempts; they are counted on, and
    the token rises. Refused: `unknown_job` (it was deleted), `illegal_state` (not dead), `backlog` (too many of the
    job's runs are held back already)."""

    run_id: RunId


class CancelRun(Command, frozen=True, kw_only=True, tag="cancel_run"):
    """End a run for good, in whatever state it is: at once if nobody holds it; else its holder is told, and whatever
    it reports ends the run `cancelled`. Refused (`illegal_state`) if it has ended otherwise."""

    run_id: RunId
    reason: Reason | None = None

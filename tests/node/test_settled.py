"""What becomes of ended runs, seen on one node at work."""

from __future__ import annotations

import msgspec
import pytest

from node.interface import Job, JobDraft, JobStats, NoopTarget, NotFound, RunState
from tests.node.conftest import LiveNode

GRACE_S = 366 * 24 * 3600.0
"""So that a time that is long past is due at once."""


async def test_a_job_shows_what_has_become_of_its_runs(live: LiveNode) -> None:
    """Added up by the state machine a second or two later, so that whoever asks adds nothing up."""
    job_id = (await live.service.create_job(JobDraft(name="a", schedule="@every 1h", target=NoopTarget()))).job_id
    run = await live.service.run_now(job_id)

    def settled() -> JobStats | None:
        with live.snapshot() as snapshot:
            return stats if (stats := snapshot.job_stats(job_id)).last_run_id is not None else None

    await live.wait_until(settled)
    for view in ((await live.service.job(job_id))[0], (await live.service.jobs()).items[0]):
        assert (view.stats.succeeded, view.stats.last_success_run_id) == (1, run.run_id)


async def test_a_one_off_that_is_to_go_is_gone_when_its_run_is_over_and_its_history_is_not(live: LiveNode) -> None:
    draft = JobDraft(name="once", run_at="2026-01-01T00:00:00Z", target=NoopTarget(), after_completion="delete")
    draft = msgspec.structs.replace(draft, misfire_grace_s=GRACE_S, misfire_policy="run_once")
    job_id = (await live.service.create_job(draft)).job_id

    def gone() -> Job | None:
        with live.snapshot() as snapshot:
            job = snapshot.job(job_id)
        return job if job is not None and job.deleted_ms is not None else None

    await live.wait_until(gone)
    with pytest.raises(NotFound):
        await live.service.job(job_id)
    [run] = (await live.service.runs_of_job(job_id)).items
    assert run.state is RunState.SUCCEEDED
    await live.service.create_job(draft)

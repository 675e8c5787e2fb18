"""What becomes of ended runs, seen on one node at work."""

from __future__ import annotations

from node.interface import JobDraft, JobStats, NoopTarget
from tests.node.conftest import LiveNode


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

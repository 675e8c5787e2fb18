"""A whole node without a network: jobs in, runs out."""

from __future__ import annotations

import pytest

from node.interface import JobDraft, NoopTarget, RunState
from tests.node.conftest import LiveNode

pytestmark = pytest.mark.slow


async def test_a_job_of_every_second_runs_at_its_ticks(live: LiveNode) -> None:
    created = await live.node.service.create_job(JobDraft(name="a", schedule="@every 1s", target=NoopTarget()))
    runs = await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 3)
    dues = [run.due_ms for run in reversed(runs)]
    assert dues == [created.next_run_ms + 1000 * number for number in range(len(dues))]
    assert all(run.attempts[0].started_ms - run.release_ms < 1000 for run in runs)

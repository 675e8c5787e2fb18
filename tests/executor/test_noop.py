"""The noop target, and what a node gets from the registry."""

import pytest

from executor import build_executors
from executor.interface import Assignment, InstantExecutor, OutcomeKind
from executor.noop import NoopExecutor
from tests.executor.servers import Collected

NOOP = Assignment(
    run_id="r",
    job_id="j",
    attempt=1,
    fence_token=1,
    due_at="2026-11-30T01:00:00.000Z",
    target={"type": "noop"},
    args=b"null",
    timeout_s=1.0,
    started_ms=0,
)


async def test_a_noop_succeeds_with_and_without_a_task() -> None:
    noop = NoopExecutor()
    assert (await noop.run(NOOP, Collected())).kind == OutcomeKind.SUCCEEDED
    assert noop.run_instantly(NOOP) == await noop.run(NOOP, Collected())


async def test_there_is_an_executor_a_target_type_and_only_noop_is_instant() -> None:
    executors = build_executors()
    assert {kind: isinstance(made, InstantExecutor) for kind, made in executors.items()} == {
        "http": False,
        "noop": True,
    }
    for made in executors.values():
        await made.close()


@pytest.mark.parametrize("allow_link_local", [True, False])
async def test_executors_are_made_outside_of_a_loop_too(allow_link_local: bool) -> None:
    assert set(build_executors(allow_link_local=allow_link_local)) == {"http", "noop"}

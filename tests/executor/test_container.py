"""The container target on a real engine: what a container is told, how its end is judged, and that nothing stays."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from executor.container import ContainerExecutor
from executor.interface import Assignment, Outcome, OutcomeKind
from executor.owner import Owner
from tests.docker_engine import IMAGE, ask
from tests.executor.containers import CLUSTER, attempt, containers, executor_on, shell
from tests.executor.outputs import KeptOutput

pytestmark = [pytest.mark.asyncio(loop_factories=["uvloop"]), pytest.mark.slow]

NAME = "horae-0193f2aa0000-01JD-7"


@pytest.fixture
async def container(docker_socket: str) -> AsyncIterator[ContainerExecutor]:
    made = executor_on(docker_socket)
    yield made
    await made.close()
    assert containers(docker_socket) == {}, "something stayed"


# --- what a container is told -----------------------------------------------------------------------------------------


async def test_a_container_gets_what_it_deduplicates_by(container: ContainerExecutor, output: KeptOutput) -> None:
    """(M2, M7)"""
    outcome = await container.run(attempt("env", args=b'{"kind":"daily"}', env={"GREETING": "a=b c"}), output)
    assert outcome == Outcome(kind=OutcomeKind.SUCCEEDED, status=0)
    told = dict(line.split("=", 1) for line in output.data.decode().splitlines())
    assert (
        told.items()
        >= {
            "HORAE_RUN_ID": "0193f2aa0000-01JD",
            "HORAE_JOB_ID": "01JD",
            "HORAE_ATTEMPT": "2",
            "HORAE_DUE_AT": "2026-11-30T01:00:00.000Z",
            "HORAE_FENCE_TOKEN": "7",
            "HORAE_ARGS": '{"kind":"daily"}',
            "GREETING": "a=b c",
        }.items()
    )


async def running(container: ContainerExecutor, assigned: Assignment, output: KeptOutput) -> asyncio.Task[Outcome]:
    """An attempt that has put `up` out."""
    task = asyncio.create_task(container.run(assigned, output))
    await output.wait_for(b"up")
    return task


async def cancelled(task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_has_its_name_labels_and_limits(
    container: ContainerExecutor, output: KeptOutput, docker_socket: str
) -> None:
    task = await running(container, shell("echo up; exec sleep 600", cpu=0.5, memory_mb=64), output)
    found = ask(docker_socket, "GET", f"/containers/{NAME}/json")
    assert found["Config"]["Labels"] == {
        "horae.cluster": CLUSTER,
        "horae.node": "n1",
        "horae.incarnation": "a",
        "horae.run_id": "0193f2aa0000-01JD",
        "horae.job_id": "01JD",
        "horae.attempt": "2",
        "horae.fence_token": "7",
    }
    host = found["HostConfig"]
    limits = (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"], host["NetworkMode"])
    assert limits == (500_000_000, 64 * 2**20, 64 * 2**20, 4096, "none")
    await cancelled(task)


async def test_without_a_command_the_image_says_what_runs(container: ContainerExecutor, output: KeptOutput) -> None:
    outcome = await container.run(attempt(), output)
    assert outcome.kind == OutcomeKind.FAILED
    assert outcome.detail == "No command specified"


# --- how its end is judged --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("exit 3", Outcome(kind=OutcomeKind.FAILED, status=3, detail="exit code 3")),
        ("sh -c 'kill -9 $$'; exit $?", Outcome(kind=OutcomeKind.FAILED, status=137, detail="exit code 137 (SIGKILL)")),
    ],
)
async def test_the_exit_code_is_the_outcome(
    container: ContainerExecutor, output: KeptOutput, line: str, outcome: Outcome
) -> None:
    assert await container.run(shell(line), output) == outcome


async def test_too_much_memory_is_told(container: ContainerExecutor, output: KeptOutput) -> None:
    outcome = await container.run(
        attempt("dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", memory_mb=8), output
    )
    assert outcome == Outcome(kind=OutcomeKind.FAILED, status=137, detail="killed: it needed more than memory_mb (8)")


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"command": ["nothing"]}, 'exec: "nothing": executable file not found in $PATH'),
        ({"image": "not-here:2", "pull": "never"}, "No such image: not-here:2"),
        ({"network": "no-net"}, "network no-net not found"),
        ({"cpu": 900}, "CPUs"),
        ({"image": "Not An Image"}, "the target is not valid: target.image is no image"),
    ],
)
async def test_what_cannot_be_started_has_failed_and_says_why(
    container: ContainerExecutor, output: KeptOutput, fields: dict[str, Any], detail: str
) -> None:
    outcome = await container.run(attempt("true", **fields), output)
    assert (outcome.kind, outcome.status) == (OutcomeKind.FAILED, None)
    assert detail in (outcome.detail or "")


async def test_no_secret_of_the_environment_is_told(container: ContainerExecutor, output: KeptOutput) -> None:
    """The engine itself repeats what it was given."""
    outcome = await container.run(attempt("s3cret-program", env={"KEY": "s3cret"}), output)
    assert outcome.detail == 'exec: "***-program": executable file not found in $PATH'


async def test_the_nodes_own_network_has_to_be_allowed(
    container: ContainerExecutor, output: KeptOutput, docker_socket: str
) -> None:
    refused = await container.run(attempt("true", network="host"), output)
    assert "start it with --allow-host-network" in (refused.detail or "")
    allowed = executor_on(docker_socket, allow_host_network=True)
    assert (await allowed.run(attempt("true", network="host"), output)).kind == OutcomeKind.SUCCEEDED
    await allowed.close()


# --- output -----------------------------------------------------------------------------------------------------------


async def test_output_comes_while_the_container_runs_both_streams(
    container: ContainerExecutor, output: KeptOutput
) -> None:
    """(M20)"""
    task = await running(container, shell("echo one; echo two >&2; echo up; exec sleep 600"), output)
    await output.wait_for(b"one\n")
    await output.wait_for(b"two\n")
    await cancelled(task)


async def test_all_of_a_long_output_is_handed_on(container: ContainerExecutor, output: KeptOutput) -> None:
    outcome = await container.run(attempt("seq", "1", "100000"), output)
    assert outcome.kind == OutcomeKind.SUCCEEDED
    assert output.data == b"".join(b"%d\n" % number for number in range(1, 100_001))


# --- that nothing stays (the fixture looks at that after each test) ---------------------------------------------------


async def test_the_time_limit_asks_first_and_kills_then(container: ContainerExecutor, output: KeptOutput) -> None:
    """(M3) The image's stop signal, SIGTERM, lets it clean up within a second."""
    line = "trap 'echo cleaned up; exit 0' TERM; echo up; sleep 600 & wait"
    outcome = await container.run(shell(line, timeout_s=2.0), output)
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, detail="killed after 2 s")
    assert output.data == b"up\ncleaned up\n"


async def test_what_does_not_listen_is_killed(container: ContainerExecutor, output: KeptOutput) -> None:
    outcome = await container.run(shell("trap '' TERM; while :; do sleep 600; done", timeout_s=1.0), output)
    assert outcome.kind == OutcomeKind.TIMED_OUT


async def test_a_cancelled_attempt_is_killed_at_once(
    container: ContainerExecutor, output: KeptOutput, docker_socket: str
) -> None:
    """(I9) What a node does whose lease lapsed, or whose run is cancelled."""
    task = await running(container, shell("trap '' TERM; echo up; while :; do sleep 600; done"), output)
    began = time.monotonic()
    await cancelled(task)
    assert time.monotonic() - began < 10
    assert containers(docker_socket) == {}


async def test_an_attempt_that_is_cancelled_twice_is_removed_all_the_same(
    container: ContainerExecutor, output: KeptOutput
) -> None:
    task = await running(container, shell("echo up; exec sleep 600"), output)
    task.cancel()
    await asyncio.sleep(0)
    await cancelled(task)


async def test_an_attempt_that_is_cancelled_before_anything_leaves_nothing(
    container: ContainerExecutor, output: KeptOutput
) -> None:
    task = asyncio.create_task(container.run(attempt("sleep", "600"), output))
    await asyncio.sleep(0)
    await cancelled(task)


async def test_a_node_that_starts_again_removes_what_the_one_before_left(
    container: ContainerExecutor, output: KeptOutput, docker_socket: str
) -> None:
    """(dkron#316) By its labels: its own containers that run now, and other nodes', are left alone."""
    for name, node in (("left", "n1"), ("left-too", "n1"), ("others", "n2")):
        create(docker_socket, name, {"horae.cluster": CLUSTER, "horae.node": node})
    create(docker_socket, "another-cluster", {"horae.cluster": f"{CLUSTER}-b", "horae.node": "n1"})
    other = executor_on(docker_socket, Owner(cluster=CLUSTER, node="n2", incarnation="b"))
    try:
        task = asyncio.create_task(container.run(shell("echo up; exec sleep 600"), output))
        await output.wait_for(b"up")  # nothing starts before the reaping
        assert set(containers(docker_socket)) == {NAME, "others", "another-cluster"}
        assert await container.reap() == 0
        await cancelled(task)
        assert await other.reap() == 1
    finally:
        ask(docker_socket, "DELETE", "/containers/another-cluster?force=1")
        await other.close()


def create(socket: str, name: str, labels: dict[str, str]) -> None:
    """A container that runs, made without an executor."""
    body = {"Image": IMAGE, "Cmd": ["sleep", "600"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    connection_body = json.dumps(body).encode()
    ask(socket, "POST", f"/containers/create?name={name}", connection_body)
    ask(socket, "POST", f"/containers/{name}/start")


async def test_two_attempts_of_a_run_do_not_meet(container: ContainerExecutor, docker_socket: str) -> None:
    """A claim's token is in the name: what an older one left does not stand in the way of a newer."""
    outputs = [KeptOutput(), KeptOutput()]
    older = await running(container, shell("echo up; exec sleep 600", token=8), outputs[0])
    newer = await running(container, shell("echo up; exec sleep 600", token=9), outputs[1])
    assert set(containers(docker_socket)) == {NAME[:-1] + "8", NAME[:-1] + "9"}
    await cancelled(older)
    assert set(containers(docker_socket)) == {NAME[:-1] + "9"}
    await cancelled(newer)

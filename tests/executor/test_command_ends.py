"""Commands that are killed, left behind or limited: nothing of them stays."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from executor.child_process import Child, ProcessPlan, spawn
from executor.command import KILL_GRACE_S, CommandExecutor
from executor.interface import Assignment, Outcome, OutcomeKind
from tests.executor.commands import CLUSTER, attempt, is_gone, marked, owner, pids_in, shell, started, until
from tests.executor.outputs import KeptOutput

# --- that nothing stays -----------------------------------------------------------------------------------------------


async def test_the_time_limit_asks_first_and_kills_then(command: CommandExecutor, output: KeptOutput) -> None:
    """(M3) SIGTERM lets it clean up within a second."""
    line = "trap 'echo cleaned up; exit 0' TERM; echo up; sleep 600 & wait"
    outcome = await command.run(shell(line, timeout_s=0.3), output)
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, detail="killed after 0.3 s")
    assert output.data == b"up\ncleaned up\n"


@pytest.mark.slow
async def test_what_does_not_listen_is_killed_within_two_seconds(command: CommandExecutor, output: KeptOutput) -> None:
    line = "trap '' TERM; (trap '' TERM; echo $$; exec sleep 600) & echo $!; wait"
    began = time.monotonic()
    outcome = await command.run(shell(line, timeout_s=0.2), output)
    assert outcome.kind == OutcomeKind.TIMED_OUT
    assert time.monotonic() - began >= 1.0
    await until("the group is gone", lambda: all(map(is_gone, pids_in(output))))
    assert len(pids_in(output)) == 2


async def cancelled(command: CommandExecutor, assigned: Assignment, output: KeptOutput, ready: bytes) -> float:
    """Cancel an attempt once it has put `ready` out; the seconds that it took to end."""
    running = asyncio.create_task(command.run(assigned, output))
    await output.wait_for(ready)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.monotonic() - began


async def test_a_cancelled_attempt_is_killed_whole(command: CommandExecutor, output: KeptOutput) -> None:
    """(I9) What a node does whose lease lapsed, or whose run is cancelled."""
    await cancelled(command, shell("sleep 600 & echo $! $$ up; wait"), output, b"up")
    await until("the group is gone", lambda: all(map(is_gone, pids_in(output))))
    assert len(pids_in(output)) == 2


async def test_a_cancelled_attempt_that_does_not_listen_is_killed_too(
    command: CommandExecutor, output: KeptOutput
) -> None:
    line = "trap '' TERM; echo $$ up; while :; do sleep 600; done"
    assert await cancelled(command, shell(line), output, b"up") >= KILL_GRACE_S
    await until("it is gone", lambda: all(map(is_gone, pids_in(output))))


async def test_what_left_the_group_is_killed_with_a_cancelled_attempt(
    command: CommandExecutor, output: KeptOutput
) -> None:
    """A daemon in a session of its own inherits the mark."""
    await cancelled(command, shell("setsid setsid sleep 600 & echo $! up; wait"), output, b"up")
    await until("the daemon is gone", lambda: not marked(lambda found: found.get("HORAE_FENCE_TOKEN") == "7"))


async def test_a_task_that_is_cancelled_while_its_process_starts_leaves_none(
    command: CommandExecutor, output: KeptOutput
) -> None:
    running = asyncio.create_task(command.run(attempt("sleep", "600"), output))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    await command._in_thread(len, ())  # what the threads had to do before is done
    await until("nothing runs", lambda: not marked(lambda found: True))


async def test_reaping_spares_what_runs_and_what_is_of_another_node(
    command: CommandExecutor, output: KeptOutput
) -> None:
    other = CommandExecutor(owner("n10"))  # n1 begins like it
    theirs = KeptOutput()
    tasks = [
        asyncio.create_task(command.run(shell("echo up; exec sleep 600"), output)),
        asyncio.create_task(other.run(shell("echo up; exec sleep 600"), theirs)),
    ]
    await output.wait_for(b"up")
    await theirs.wait_for(b"up")
    assert await command.reap() == 0
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await other.close()


async def test_a_node_that_starts_again_ends_what_the_one_before_left(output: KeptOutput) -> None:
    """(dkron#316) By the mark, so that a number that another process has by now is never killed."""
    before = spawn(plan("sleep", "600", mark=owner().mark))
    child = Child(before, output)
    after = started()
    assert await after.reap() == 1
    await child.ended.wait()
    assert child.code == -signal.SIGKILL
    await after.close()


def plan(*argv: str, mark: str) -> ProcessPlan:
    return ProcessPlan(argv=argv, environment={"PATH": os.environ["PATH"], "HORAE_MARK": mark}, folder="/")


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_limits_hold_from_the_first_instruction(command: CommandExecutor, output: KeptOutput) -> None:
    outcome = await command.run(shell("ulimit -v; ulimit -t; ulimit -n", memory_mb=256, cpu_s=9, open_files=32), output)
    assert outcome.kind == OutcomeKind.SUCCEEDED
    assert output.data.split() == [b"262144", b"9", b"32"]


@pytest.mark.slow
def test_the_limit_of_processor_time_is_named(output: KeptOutput) -> None:
    async def attempt_once() -> Outcome:
        command = started()
        outcome = await command.run(shell("while :; do :; done", cpu_s=1), output)
        await command.close()
        return outcome

    outcome = asyncio.run(attempt_once())
    assert outcome == Outcome(kind=OutcomeKind.FAILED, status=152, detail="killed by SIGXCPU (cpu_s is used up)")


async def test_a_node_without_the_limiter_says_so(
    command: CommandExecutor, output: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor.command_plan.LIMITER", "no-prlimit")
    outcome = await command.run(attempt("true", open_files=64), output)
    assert "this node has no no-prlimit" in (outcome.detail or "")
    assert (await command.run(attempt("true"), output)).kind == OutcomeKind.SUCCEEDED


NODE = """
import asyncio, sys
from executor.command import CommandExecutor
from executor.owner import Owner
from tests.executor.commands import shell
class Shown:
    def write(self, data):
        print(data.decode(), end="", flush=True)
async def main():
    command = CommandExecutor(Owner(cluster=sys.argv[1], node="n1", incarnation="a"))
    await command.run(shell("sleep 600 & setsid sleep 600 & echo $$ $! up; wait"), Shown())
asyncio.run(main())
"""


def killed_node_output(cluster: str) -> bytes:
    node = subprocess.Popen([sys.executable, "-c", NODE, cluster], stdout=subprocess.PIPE, start_new_session=True)
    assert node.stdout is not None
    line = node.stdout.readline()
    os.killpg(node.pid, signal.SIGKILL)
    node.wait()
    node.stdout.close()
    return line


@pytest.mark.slow
async def test_a_node_that_is_killed_leaves_no_child() -> None:
    """(M8) kill -9 of the node and its whole group: the guard ends children and grandchildren, in whatever group."""
    cluster = f"{CLUSTER}-killed"
    line = await asyncio.to_thread(killed_node_output, cluster)
    await until("children are gone", lambda: all(is_gone(int(word)) for word in line.split()[:2]))
    await until("grandchildren are gone", lambda: not marked(lambda found: found["HORAE_MARK"] == f"{cluster}/n1/a"))

"""The command target with real processes: what they are told, how their end is judged, what becomes of their output."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from executor.child_process import READ_BYTES
from executor.command import CommandExecutor
from executor.interface import Assignment, Outcome, OutcomeKind
from tests.executor.commands import attempt, is_gone, marked, shell, until
from tests.executor.outputs import KeptOutput

# --- what a command is told -------------------------------------------------------------------------------------------


async def test_a_command_gets_a_clean_environment_with_what_it_deduplicates_by(
    command: CommandExecutor, output: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(M2, M7) Nothing of the node's own environment is in it."""
    monkeypatch.setenv("NODE_SECRET", "x")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    outcome = await command.run(
        attempt(sys.executable, "-I", "-c", code, args=b'{"kind":"daily"}', env={"GREETING": "a=b c", "LC_ALL": "C"}),
        output,
    )
    assert outcome == Outcome(kind=OutcomeKind.SUCCEEDED, status=0)
    told = json.loads(output.data)
    told.pop("LC_CTYPE", None)  # Python's own
    assert told == {
        "HORAE_RUN_ID": "0193f2aa0000-01JD",
        "HORAE_JOB_ID": "01JD",
        "HORAE_ATTEMPT": "2",
        "HORAE_DUE_AT": "2026-11-30T01:00:00.000Z",
        "HORAE_FENCE_TOKEN": "7",
        "HORAE_ARGS": '{"kind":"daily"}',
        "HORAE_MARK": command._owner.mark,
        "GREETING": "a=b c",
        "LC_ALL": "C",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }


async def test_a_job_chooses_path_and_folder(command: CommandExecutor, output: KeptOutput, tmp_path: Path) -> None:
    program = tmp_path / "report"
    program.write_text('#!/bin/sh\nread line || echo "$PWD, nothing to read"\n')
    program.chmod(0o755)
    outcome = await command.run(attempt("report", env={"PATH": str(tmp_path)}, cwd=str(tmp_path)), output)
    assert (outcome.kind, output.data) == (OutcomeKind.SUCCEEDED, f"{tmp_path}, nothing to read\n".encode())


async def test_the_usual_folder_is_the_root(command: CommandExecutor, output: KeptOutput) -> None:
    await command.run(attempt("pwd"), output)
    assert output.data == b"/\n"


async def test_there_is_no_shell(command: CommandExecutor, output: KeptOutput) -> None:
    await command.run(attempt("echo", "$HOME; *", "`id`"), output)
    assert output.data == b"$HOME; * `id`\n"


async def test_no_file_of_the_node_is_open_in_a_command(command: CommandExecutor, output: KeptOutput) -> None:
    await command.run(attempt("ls", "-l", "/proc/self/fd"), output)
    ends = [line.split(b" -> ")[1] for line in output.data.splitlines() if b" -> " in line]
    assert len(ends) == 4  # its three, and the folder that ls reads
    assert ends[0] == b"/dev/null"
    assert ends[1] == ends[2]


# --- how its end is judged --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "status", "detail"),
    [
        ("exit 0", OutcomeKind.SUCCEEDED, 0, None),
        ("exit 3", OutcomeKind.FAILED, 3, "exit code 3"),
        ("exit 255", OutcomeKind.FAILED, 255, "exit code 255"),
        ("kill -9 $$", OutcomeKind.FAILED, 137, "killed by SIGKILL"),
        ("kill -15 $$", OutcomeKind.FAILED, 143, "killed by SIGTERM"),
    ],
)
async def test_the_exit_code_is_the_outcome(
    command: CommandExecutor, output: KeptOutput, line: str, kind: OutcomeKind, status: int, detail: str | None
) -> None:
    assert await command.run(shell(line), output) == Outcome(kind=kind, status=status, detail=detail)


@pytest.mark.parametrize(
    ("assigned", "detail"),
    [
        (attempt("no-such-program"), "there is no program no-such-program on this node"),
        (attempt("echo hello"), "each word of the command is an entry of target.argv"),
        (attempt("/etc/passwd"), "it must not be executed"),
        (attempt("true", cwd="/no/such/folder"), "there is no folder /no/such/folder on this node (target.cwd)"),
        (attempt(), "target.argv names no program"),
        (attempt("true", env={"HORAE_RUN_ID": "forged"}), "target.env.HORAE_RUN_ID names that begin with HORAE_"),
        (attempt("true", "\0"), "target.argv[1] has a NUL byte"),
        (attempt("true", "\ud800"), "the target is not valid"),
    ],
)
async def test_what_cannot_be_started_has_failed_and_says_why(
    command: CommandExecutor, output: KeptOutput, assigned: Assignment, detail: str
) -> None:
    outcome = await command.run(assigned, output)
    assert (outcome.kind, outcome.status) == (OutcomeKind.FAILED, None)
    assert detail in (outcome.detail or "")


async def test_a_file_that_is_no_program_has_failed(
    command: CommandExecutor, output: KeptOutput, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(b"\x01\x02")
    (tmp_path / "data").chmod(0o755)
    outcome = await command.run(attempt("./data", cwd=str(tmp_path)), output)
    assert outcome.detail == "the program cannot be started: Exec format error"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("call", ["pipe2", "pidfd_open"])
async def test_a_node_without_descriptors_fails_the_attempt_and_leaves_nothing(
    command: CommandExecutor, output: KeptOutput, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(number: int) -> None:
        raise OSError(24, "Too many open files")

    await command.run(attempt("true"), output)
    files = open_files()
    with monkeypatch.context() as short:
        short.setattr(os, call, refuse)
        outcome = await command.run(attempt("sleep", "600"), output)
    assert outcome.detail == "the program cannot be started: Too many open files"
    assert open_files() == files
    assert marked(lambda found: found["HORAE_MARK"] == command._owner.mark) == []


async def test_no_secret_of_the_environment_is_told(command: CommandExecutor, output: KeptOutput) -> None:
    for assigned in (attempt("nothing", env={"KEY": "s3cret"}), shell("exit 1", env={"KEY": "s3cret"})):
        assert "s3cret" not in repr(await command.run(assigned, output))


# --- output -----------------------------------------------------------------------------------------------------------


async def test_output_comes_while_the_command_runs_both_streams_in_order(
    command: CommandExecutor, output: KeptOutput
) -> None:
    """(M20)"""
    running = asyncio.create_task(command.run(shell("echo one; echo two >&2; echo three; exec sleep 600"), output))
    await output.wait_for(b"one\ntwo\nthree\n")
    running.cancel()
    await asyncio.wait([running])


async def test_all_of_a_long_output_is_handed_on(command: CommandExecutor, output: KeptOutput) -> None:
    outcome = await command.run(attempt("seq", "1", "200000"), output)
    assert outcome.kind == OutcomeKind.SUCCEEDED
    assert output.data == b"".join(b"%d\n" % number for number in range(1, 200_001))
    assert max(map(len, output.pieces)) <= READ_BYTES


async def test_endless_output_does_not_take_the_loop_for_itself(command: CommandExecutor) -> None:
    """It is read once each 5 ms at most, however it is written."""

    class Counted:
        reads = 0

        def write(self, data: bytes) -> None:
            self.reads += 1

    counted = Counted()
    await command.run(attempt("yes", timeout_s=0.3), counted)
    assert 0 < counted.reads <= 300  # 1.3 s, if it did not listen to SIGTERM


async def test_a_descendant_that_keeps_the_pipe_open_does_not_keep_the_run(
    command: CommandExecutor, output: KeptOutput, tmp_path: Path
) -> None:
    """Nor does it stay: it is found by its mark."""
    line = "setsid sh -c 'echo $$ | tee up; exec sleep 600' & until [ -s up ]; do :; done"
    outcome = await command.run(shell(line, cwd=str(tmp_path)), output)
    assert outcome.kind == OutcomeKind.SUCCEEDED, outcome
    assert await command.reap() == 1
    await until("the descendant is gone", lambda: is_gone(int((tmp_path / "up").read_text())))

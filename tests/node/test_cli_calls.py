"""Commands against a node that answers: what they send, print, and exit with."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from msgspec.structs import replace

from httpapi.app import build_app
from node.cli import main
from node.cli_output import cell, table
from node.interface import OutcomeUnknown, RunState, Unavailable
from tests.httpapi.twin import NOW_MS, Twin

Horae = Callable[..., Result]


class Server:
    """A node in a thread of its own, since a command runs a loop of its own."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin
        self.address = ""
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        runner = web.AppRunner(build_app(self.twin, node=self.twin.node), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.address = f"http://{host}:{port}"
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._started.wait(5)
        return self

    def __exit__(self, *failure: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Twin()) as server:
        yield server


@pytest.fixture
def horae(server: Server) -> Horae:
    def run(*arguments: str, exit_code: int = 0, **options: Any) -> Result:
        result = CliRunner(env={"HORAE_URL": server.address}).invoke(main, list(arguments), **options)
        assert result.exit_code == exit_code, (result.output, result.exception)
        return result

    return run


def create(horae: Horae, *more: str) -> dict[str, Any]:
    result = horae("job", "create", "--name", "beat", "--schedule", "@every 5s", "--noop", *more)
    created: dict[str, Any] = json.loads(result.stdout)
    return created


def test_create_sends_every_option(horae: Horae) -> None:
    created = horae(
        *("job", "create", "--name", "report", "--team", "billing", "--schedule", "0 2 * * *"),
        *("--schedule", "30 14 * * *", "--tz", "Europe/Berlin", "--url", "https://billing.example/report"),
        *("--method", "put", "--header", "X-Env: prod", "--header", "X-B:c:d", "--args", '{"kind": "daily"}'),
        *("--timeout", "600", "--max-retries", "0", "--priority", "high", "--overlap-policy", "skip"),
        *("--misfire-policy", "run_once", "--misfire-window", "3600", "--max-runs", "9"),
        *("--max-concurrent", "2", "--start-deadline", "60", "--run-timeout", "1800"),
        *("--idempotency-key", "c0ffee"),
        *("--run-on", "zone=eu", "--run-on", "a=b"),
    )
    job_id = json.loads(created.stdout)["job_id"]
    job = json.loads(horae("job", "show", job_id).stdout)
    assert (job["name"], job["team"], job["tz"]) == ("report", "billing", "Europe/Berlin")
    assert job["schedule"] == ["0 2 * * *", "30 14 * * *"]
    assert job["target"]["method"] == "PUT"
    assert job["target"]["headers"] == {"X-Env": "prod", "X-B": "c:d"}
    assert (job["args"], job["timeout_s"], job["max_retries"], job["priority"]) == ({"kind": "daily"}, 600, 0, 8)
    assert (job["start_deadline_s"], job["run_timeout_s"]) == (60, 1800)
    assert (job["overlap_policy"], job["max_concurrent"], job["misfire_policy"]) == ("skip", 2, "run_once")
    assert (job["misfire_window_s"], job["max_runs"]) == (3600, 9)
    assert job["run_on"] == {"zone": "eu", "a": "b"}


def test_create_prints_what_the_api_answers(horae: Horae) -> None:
    assert list(create(horae)) == ["job_id", "next_run_at", "version"]
    text = horae("job", "create", "--name", "b", "--run-at", "2030-01-01T00:00:00Z", "--noop", "-o", "table").stdout
    assert text.endswith(", next run 2030-01-01T00:00:00.000Z\n")


def test_create_reads_a_file_or_standard_input(horae: Horae, tmp_path: Path) -> None:
    body = json.dumps({"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}})
    (tmp_path / "job.json").write_text(body)
    first = horae("job", "create", "-f", str(tmp_path / "job.json"), "--idempotency-key", "k")
    again = horae("job", "create", "-f", "-", "--idempotency-key", "k", input=body)
    assert first.stdout == again.stdout
    horae("job", "create", "-f", "-", input="[]", exit_code=2)


def test_a_refusal_names_the_fields_and_exits_with_1(horae: Horae) -> None:
    arguments = ("job", "create", "--name", "beat", "--schedule", "@every 5s", "--tz", "Mars/Olympus", "--noop")
    result = horae(*arguments, "--priority", "10", exit_code=1)
    assert "\n  tz: " in result.stderr
    assert "\n  priority: " in result.stderr
    assert result.stdout == ""


def test_a_taken_name_exits_with_1(horae: Horae) -> None:
    create(horae)
    result = horae("job", "create", "--name", "beat", "--schedule", "@every 9s", "--noop", exit_code=1)
    assert "beat" in result.stderr


def test_jobs_are_listed_as_json_in_a_pipe_and_as_a_table_when_asked(horae: Horae) -> None:
    job_id = create(horae)["job_id"]
    assert [job["job_id"] for job in json.loads(horae("job", "list").stdout)["items"]] == [job_id]
    header, row = horae("job", "list", "-o", "table").stdout.splitlines()
    assert header.split() == ["NAME", "TEAM", "SCHEDULE", "TZ", "TARGET", "STATE", "NEXT", "RUN", "LAST", "JOB", "ID"]
    times = ["@every", "5s", "UTC", "noop", "active", "2026-11-30T01:00:05.000Z"]
    assert row.split() == ["beat", "default", *times, "-", job_id]


def test_a_jobs_history_is_shown_added_up(horae: Horae, server: Server) -> None:
    job_id = create(horae)["job_id"]
    assert "none yet" in horae("job", "show", job_id, "-o", "table").stdout
    run_id = server.twin.fire(job_id, NOW_MS).run_id
    server.twin.finish(run_id)
    assert horae("job", "list", "-o", "table").stdout.splitlines()[1].split()[-2:] == ["succeeded", job_id]
    shown = dict(line.split(maxsplit=1) for line in horae("job", "show", job_id, "-o", "table").stdout.splitlines())
    assert shown["runs"] == "1 succeeded"
    assert shown["last_success"] == f"2026-11-30T01:00:01.004Z {run_id}"
    assert "last_failure" not in shown and "consecutive_failures" not in shown
    twin_run = server.twin.fire(job_id, NOW_MS + 5000)
    server.twin.put_run(msgspec.structs.replace(twin_run, state=RunState.DEAD, finished_ms=NOW_MS + 6000))
    shown = dict(line.split(maxsplit=1) for line in horae("job", "show", job_id, "-o", "table").stdout.splitlines())
    assert (shown["runs"], shown["consecutive_failures"]) == ("1 succeeded, 1 dead", "1")


def test_whom_a_job_tells_is_said_by_options(horae: Horae) -> None:
    told = ("--notify-url", "http://127.0.0.1:9/x")
    job_id = create(horae, *told)["job_id"]
    assert json.loads(horae("job", "show", job_id).stdout)["notify"]["on"] == ["dead", "recovered"]
    job_id = create(horae, "--team", "b", *told, "--notify-on", "late", "--notify-on", "skipped")["job_id"]
    assert json.loads(horae("job", "show", job_id).stdout)["notify"]["on"] == ["late", "skipped"]
    alone = ("job", "create", "--name", "x", "--schedule", "@every 9s", "--noop", "--notify-on", "late")
    assert "--notify-url" in horae(*alone, exit_code=2).stderr


def test_pages_of_jobs_are_followed(horae: Horae) -> None:
    for name in "abc":
        horae("job", "create", "--name", name, "--schedule", "@every 5s", "--noop")
    page = json.loads(horae("job", "list", "--limit", "2").stdout)
    rest = json.loads(horae("job", "list", "--cursor", page["next_cursor"]).stdout)
    every = json.loads(horae("job", "list", "--all").stdout)
    assert page["items"] + rest["items"] == every["items"]
    assert every["next_cursor"] is None
    assert "--cursor" in horae("job", "list", "--limit", "2", "-o", "table").stdout


def test_a_job_is_found_by_name_or_id(horae: Horae) -> None:
    job_id = create(horae)["job_id"]
    create(horae, "--team", "other")
    assert json.loads(horae("job", "show", "beat", "--team", "default").stdout)["job_id"] == job_id
    assert json.loads(horae("job", "show", job_id).stdout)["job_id"] == job_id
    assert "default, other" in horae("job", "show", "beat", exit_code=1).stderr
    assert "no job" in horae("job", "show", "bea", exit_code=1).stderr
    assert "no job" in horae("job", "show", "0" * 26, exit_code=1).stderr
    text = horae("job", "show", job_id, "-o", "table").stdout
    assert "next_run_at" in text
    assert '{"type":"noop"}' in text


def test_run_now_and_its_history(horae: Horae) -> None:
    create(horae)
    run = json.loads(horae("job", "run", "beat", "--args", '{"day": 1}', "--idempotency-key", "r").stdout)
    again = json.loads(horae("job", "run", "beat", "--args", '{"day": 1}', "--idempotency-key", "r").stdout)
    assert (run["kind"], run["run_id"]) == ("manual", again["run_id"])
    same = ("job", "run", "beat", "--args", '{"day": 1}', "--idempotency-key", "r")
    assert run["run_id"] in horae(*same, "-o", "table").stdout
    horae("job", "run", "beat", "--args", "2", "--idempotency-key", "r", exit_code=1)
    horae(*same, "--overlap-policy", "skip", exit_code=1)
    listed = json.loads(horae("run", "list", "beat").stdout)["items"]
    assert [one["run_id"] for one in listed] == [run["run_id"]]
    assert json.loads(horae("run", "show", run["run_id"]).stdout) == listed[0]


def test_runs_are_filtered_and_shown_with_their_attempts(horae: Horae, server: Server) -> None:
    job_id = create(horae)["job_id"]
    first, second = (server.twin.fire(job_id, NOW_MS + number * 5000).run_id for number in range(2))
    server.twin.finish(first, output=b"hello\nworld\n", status=204)
    table_of_runs = horae("run", "list", "beat", "--state", "succeeded", "-o", "table").stdout.splitlines()
    assert len(table_of_runs) == 2
    assert table_of_runs[1].split()[:2] == ["2026-11-30T01:00:00.000Z", "succeeded"]
    assert horae("run", "list", "beat", "--from", "2026-11-30T01:00:05Z", "-o", "table").stdout.count(second) == 1
    text = horae("run", "show", first, "-o", "table").stdout
    assert "fence_token" in text
    assert "204" in text.splitlines()[-1]
    assert horae("run", "logs", first, "--attempt", "1").stdout == "hello\nworld\n"
    assert "state" in horae("run", "list", "beat", "--state", "done", exit_code=1).stderr


def test_a_run_is_cancelled(horae: Horae, server: Server) -> None:
    create(horae)
    first, second = (json.loads(horae("job", "run", "beat").stdout)["run_id"] for _ in range(2))
    cancelled = json.loads(horae("run", "cancel", first, "--reason", "typo").stdout)
    assert (cancelled["state"], cancelled["reason"], cancelled["effective"]) == ("cancelled", "cancelled: typo", True)
    assert horae("run", "cancel", first, "-o", "table").stdout == f"run {first} is cancelled\n"
    server.twin.put_run(replace(server.twin.runs_by_id[second], state=RunState.RUNNING, node="n1"))
    assert "n1 has not confirmed" in horae("run", "cancel", second, "-o", "table").stdout
    server.twin.finish(second)
    assert "ended" in horae("run", "cancel", second, exit_code=1).stderr


def test_a_log_is_followed_with_output_on_stdout_and_all_else_on_stderr(horae: Horae, server: Server) -> None:
    """(M4)"""
    run_id = server.twin.fire(create(horae)["job_id"], NOW_MS).run_id
    server.twin.finish(run_id, output=b"gr\xc3\xbc\xc3\x9fe\n\xff")
    followed = horae("run", "logs", "-f", run_id)
    assert followed.stdout_bytes == b"gr\xc3\xbc\xc3\x9fe\n\xff"
    assert followed.stderr.splitlines() == ["--- attempt 1 on n1", "--- succeeded"]
    assert "no attempt 7" in horae("run", "logs", "-f", run_id, "--attempt", "7", exit_code=1).stderr


def test_dead_runs_are_listed_and_redriven(horae: Horae, server: Server) -> None:
    job_id = create(horae)["job_id"]
    runs = [server.twin.fire(job_id, NOW_MS + number * 5000) for number in range(3)]
    for run in runs:
        server.twin.put_run(replace(run, state=RunState.DEAD))
    listed = json.loads(horae("run", "list", "--state", "dead", "--team", "default").stdout)["items"]
    assert [one["run_id"] for one in listed] == [run.run_id for run in reversed(runs)]
    assert horae("run", "redrive", runs[0].run_id, "-o", "table").stdout == "1 redriven\n"
    assert json.loads(horae("run", "redrive", "--job", "beat").stdout)["redriven"] == 2
    assert json.loads(horae("run", "redrive", "--team", "default").stdout)["redriven"] == 0
    assert "dead" in horae("run", "redrive", runs[0].run_id, exit_code=1).stderr
    for wrong in (("run", "list"), ("run", "list", "--state", "queued"), ("run", "redrive")):
        horae(*wrong, exit_code=2)


def test_the_history_of_a_deleted_job_is_found_by_its_id(horae: Horae) -> None:
    job_id = create(horae)["job_id"]
    run_id = json.loads(horae("job", "run", "beat").stdout)["run_id"]
    horae("job", "delete", "beat")
    assert json.loads(horae("run", "list", job_id).stdout)["items"][0]["run_id"] == run_id
    horae("run", "list", "beat", exit_code=1)
    horae("run", "list", "9" * 26, exit_code=1)


def test_delete_with_a_version_is_a_compare_and_set(horae: Horae) -> None:
    create(horae)
    horae("job", "delete", "beat", "--version", "9", exit_code=1)
    assert horae("job", "delete", "beat", "--version", "1").stderr.startswith("deleted beat")
    horae("job", "delete", "beat", exit_code=1)


def test_the_cluster_is_shown(horae: Horae) -> None:
    assert json.loads(horae("cluster", "status").stdout)["leader"] == "n1"
    text = horae("cluster", "status", "--local", "-o", "table").stdout
    assert text.splitlines()[-1].split()[:3] == ["n1", "leader", "yes"]


def test_the_leadership_is_handed_over(horae: Horae, server: Server) -> None:
    server.twin.addresses["n2"] = "127.0.0.1:8102"
    assert horae("cluster", "transfer", "n2", "-o", "table").stdout == "node n2 leads\n"
    assert server.twin.leader == "n2"
    server.twin.leader = "n1"
    refused = horae("cluster", "transfer", "n9", exit_code=1)
    assert "to: is no member" in refused.stderr


def test_no_node_exits_with_3(horae: Horae) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    result = horae("job", "list", "--server", address, exit_code=3)
    assert address in result.stderr
    assert "horae dev" in result.stderr


@pytest.mark.parametrize(("error", "repeat"), [(Unavailable(), False), (OutcomeUnknown(), True)])
def test_no_quorum_exits_with_3_and_says_whether_to_look(
    horae: Horae, server: Server, error: Exception, repeat: bool
) -> None:
    server.twin.broken = error
    result = horae("job", "create", "--name", "a", "--schedule", "@every 5s", "--noop", exit_code=3)
    assert str(error) in result.stderr
    assert ("It may have happened" in result.stderr) is repeat


def test_addresses_are_tried_in_turn(horae: Horae, server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    horae("job", "list", "--server", f"{address},{server.address}")


def test_names_cannot_steer_the_terminal() -> None:
    text = table(["NAME"], [["\x1b[2Jgone\nnext"], ["x" * 100], [None], [["a", "b"]]])
    assert text.splitlines() == ["NAME", " [2Jgone next", "x" * 79 + "…", "-", "a,b"]
    assert cell("") == "-"


def test_states_are_coloured_and_columns_still_align() -> None:
    lines = table(["STATE", "X"], [["dead", 1], ["succeeded", 2]]).splitlines()
    assert "\x1b[31m" in lines[1]
    assert [click.unstyle(line).index(x) for line, x in zip(lines, "X12", strict=True)] == [11, 11, 11]


def test_a_job_is_paused_and_resumed(horae: Horae, server: Server) -> None:
    create(horae)
    paused = json.loads(horae("job", "pause", "beat", "--reason", "flood", "--version", "1").stdout)
    assert (paused["state"], paused["pause_reason"], paused["effective"]) == ("paused", "flood", True)
    assert "paused" in horae("job", "list", "-o", "table").stdout
    resumed = horae("job", "resume", "beat", "--from", "paused_at", "-o", "table").stdout
    assert resumed.startswith("resumed beat, next run 2026-")
    horae("job", "resume", "beat", "--from", "then", exit_code=2)
    horae("job", "pause", "beat", "--version", "1", exit_code=1)
    server.twin.effective = False
    assert "not effective yet" in horae("job", "pause", "beat", "-o", "table").stderr
    assert "not effective yet" in horae("job", "delete", "beat").stderr


def test_calendars_are_set_listed_shown_and_deleted(horae: Horae) -> None:
    made = horae("calendar", "set", "x", "--day", "2026-12-25", "--day", "2026-12-31/2027-01-01", "--tz", "UTC")
    assert json.loads(made.stdout)["version"] == 1
    horae("calendar", "set", "x", "--day", "2026-12-25", "--version", "0", exit_code=1)
    job_id = create(horae, "--exclude-calendar", "x")["job_id"]
    assert json.loads(horae("job", "show", job_id).stdout)["exclude_calendars"] == ["x"]
    horae("calendar", "delete", "x", exit_code=1)
    horae("job", "delete", job_id)
    assert horae("calendar", "set", "y", "--day", "2026-12-25", "-o", "table").stdout == "calendar y, version 1\n"
    _, *rows = horae("calendar", "list", "-o", "table").stdout.splitlines()
    assert [row.split() for row in rows] == [["x", "UTC", "2", "1"], ["y", "-", "1", "1"]]
    assert len(json.loads(horae("calendar", "list", "--all").stdout)["items"]) == 2
    assert "more: --cursor" in horae("calendar", "list", "--limit", "1", "-o", "table").stdout
    assert horae("calendar", "show", "x", "-o", "table").stdout.splitlines() == ["2026-12-25", "2026-12-31/2027-01-01"]
    assert horae("calendar", "delete", "x", "--version", "1").stderr == "deleted calendar x\n"
    horae("calendar", "show", "x", exit_code=1)


def test_a_job_is_backfilled(horae: Horae) -> None:
    create(horae)
    times = ("--from", "2026-11-29T00:00:00Z", "--to", "2026-11-29T00:01:00Z")
    planned = horae("job", "backfill", "beat", *times, "--dry-run", "-o", "table").stdout
    assert planned == "12 ticks, from 2026-11-29T00:00:00.000Z to 2026-11-29T00:00:55.000Z\n"
    made = json.loads(horae("job", "backfill", "beat", *times, "--args", "[1]", "--idempotency-key", "k").stdout)
    again = horae("job", "backfill", "beat", *times, "--args", "[1]", "--idempotency-key", "k", "-o", "table").stdout
    assert again == f"backfill {made['backfill_id']} is running\n"
    _, row = horae("backfill", "list", "beat", "-o", "table").stdout.splitlines()
    assert row.split()[:2] == [made["backfill_id"], "running"]
    answer = horae("backfill", "cancel", made["backfill_id"], "--reason", "enough", "-o", "table").stdout
    assert answer == f"backfill {made['backfill_id']} is cancelled\n"
    horae("job", "backfill", "beat", "--from", "then", "--to", "now", exit_code=1)

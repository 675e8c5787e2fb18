"""`horae run complete` and `horae run heartbeat`, as a script uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from node.cli import main
from node.interface import RunState
from tests.httpapi.test_completion import LEASE
from tests.httpapi.twin import NOW_MS
from tests.node.test_cli_calls import Horae, Server, create, horae, server

__all__ = ["horae", "server"]


@pytest.fixture
def run_id(horae: Horae, server: Server) -> str:
    run = server.twin.fire(create(horae)["job_id"], NOW_MS)
    server.twin.put_run(msgspec.structs.replace(run, state=RunState.RUNNING, token=3, node="n1", lease=LEASE))
    return run.run_id


def test_a_script_completes_its_run(horae: Horae, run_id: str) -> None:
    text = horae("run", "heartbeat", run_id, "--fence-token", "3", "--progress", "half", "-o", "table").stdout
    assert text == f"run {run_id} goes on; to be heard again before 2026-11-30T01:00:30.000Z\n"
    told = ("--fence-token", "3", "--detail", "all", "--log-file", "-")
    done = horae("run", "complete", run_id, *told, "-o", "table", input="312 rows\n")
    assert horae("run", "logs", run_id).stdout == "312 rows\n"
    assert done.stdout == f"run {run_id} is succeeded\n"
    shown: dict[str, Any] = json.loads(horae("run", "show", run_id).stdout)
    assert shown["attempts"][0]["detail"] == "all"
    late = horae("run", "heartbeat", run_id, "--fence-token", "3", exit_code=1)
    assert "the run is succeeded" in late.stderr


def test_run_and_token_may_come_from_the_environment(server: Server, run_id: str) -> None:
    environment = {"HORAE_URL": server.address, "HORAE_RUN_ID": run_id, "HORAE_FENCE_TOKEN": "3"}
    result = CliRunner(env=environment).invoke(main, ["run", "complete", "--outcome", "failed"])
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (0, "dead")


def test_a_job_is_created_with_all_that_an_http_target_knows(horae: Horae, tmp_path: Path) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    (tmp_path / "secret").write_text(f"{secret}\n")
    common = ("job", "create", "--name", "long", "--schedule", "@every 5s")
    more = ("--heartbeat", "30", "--follow-redirects", "--signing-secret-file", str(tmp_path / "secret"))
    created = horae(*common, "--url", "https://a.example", *more)
    shown = horae("job", "show", json.loads(created.stdout)["job_id"])
    target = json.loads(shown.stdout)["target"]
    assert (target["heartbeat_s"], target["follow_redirects"]) == (30, True)
    assert target["signing_secret"] == "whsec_********"
    for option in ("--follow-redirects", "--heartbeat=30"):
        assert option.partition("=")[0] in horae(*common, "--noop", option, exit_code=2).stderr

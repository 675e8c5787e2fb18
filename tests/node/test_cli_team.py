"""`horae team` against a node that answers."""

from __future__ import annotations

import json
from typing import Any

from tests.node.test_cli_calls import Horae, create, horae, server

__all__ = ["horae", "server"]


def settings(horae: Horae, team: str) -> tuple[Any, ...]:
    shown = json.loads(horae("team", "show", team).stdout)
    return shown["max_concurrent"], shown["weight"], shown["max_jobs"], shown["version"]


def test_set_changes_what_is_named_and_nothing_else(horae: Horae) -> None:
    horae("team", "set", "red", "--max-concurrent", "20", "--weight", "3")
    assert settings(horae, "red") == (20, 3, None, 1)
    horae("team", "set", "red", "--max-jobs", "9")
    assert settings(horae, "red") == (20, 3, 9, 2)
    answer = json.loads(horae("team", "set", "red", "--max-concurrent", "none", "-o", "json").stdout)
    assert (answer["max_concurrent"], answer["weight"], answer["version"]) == (None, 3, 3)


def test_what_its_jobs_do_by_default_is_set_and_kept(horae: Horae) -> None:
    horae("team", "set", "red", "--notify", '{"url": "http://127.0.0.1:9/"}', "--keep-runs", "50", "--keep-days", "7.5")
    horae("team", "set", "red", "--weight", "2")
    shown = json.loads(horae("team", "show", "red").stdout)
    assert (shown["notify"]["url"], shown["keep_runs"], shown["keep_days"]) == ("http://127.0.0.1:9/", 50, 7.5)
    assert '"url":"http://127.0.0.1:9/"' in horae("team", "show", "red", "-o", "table").stdout
    horae("team", "set", "red", "--notify", "none", "--keep-days", "none")
    shown = json.loads(horae("team", "show", "red").stdout)
    assert (shown["notify"], shown["keep_runs"], shown["keep_days"]) == (None, 50, None)
    assert "--notify" in horae("team", "set", "red", "--notify", "{", exit_code=2).stderr


def test_set_must_be_told_what(horae: Horae) -> None:
    assert "Say what to change" in horae("team", "set", "red", exit_code=2).stderr
    assert "not a number" in horae("team", "set", "red", "--max-jobs", "few", exit_code=2).stderr
    assert "weight" in horae("team", "set", "red", "--weight", "5000", exit_code=1).stderr


def test_teams_are_listed_as_a_table_and_as_json(horae: Horae) -> None:
    create(horae, "--team", "blue")
    horae("team", "set", "red", "--max-concurrent", "2")
    assert [one["team"] for one in json.loads(horae("team", "list").stdout)["items"]] == ["blue", "red"]
    lines = horae("team", "list", "--all", "-o", "table").stdout.splitlines()
    assert lines[0].split() == ["TEAM", "MAX", "CONCURRENT", "CLAIMS", "WEIGHT", "MAX", "JOBS", "JOBS"]
    assert lines[1].split() == ["blue", "-", "0", "1", "-", "1"]
    assert "more: --cursor" in horae("team", "list", "--limit", "1", "-o", "table").stdout


def test_show_and_reset(horae: Horae) -> None:
    horae("team", "show", "red", exit_code=1)
    horae("team", "set", "red", "--weight", "4")
    assert "weight" in horae("team", "show", "red", "-o", "table").stdout
    horae("team", "reset", "red", "--version", "9", exit_code=1)
    assert "has the defaults" in horae("team", "reset", "red").stderr
    horae("team", "show", "red", exit_code=1)

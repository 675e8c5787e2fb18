"""The tree keeps the rules of tests/tidy.py, and each rule catches what it is for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests import tidy
from tests.tidy import MAY_IMPORT, RULES, File, Rule

ROOT = Path(__file__).resolve().parent.parent

ENTRY_POINTS = {
    "node/cli.py": "the console script `horae`",
    "raftlog/memory.py": "the twin of the log for tests and simulations: it passes the log's own conformance suite",
}
"""Files that nothing of ours imports, and who uses them."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("sleeping_tests", "tests/chaos/test_virtual_loop.py"): "sleeps on virtual time: that is what is tested",
    ("sleeping_tests", "tests/cluster/conditions.py"): "other processes give no signal: it polls what they show",
    ("sleeping_tests", "tests/docker_engine.py"): "another process gives no signal that it is up",
    ("sleeping_tests", "tests/raftlog/test_log_cluster.py"): "a stopped process is left alone for a while",
    ("sleeping_tests", "tests/raftlog/test_log_figures.py"): "measures at a steady pace",
}
"""(rule, file) → why the rule is broken there on purpose."""

TEXTS = ("*.md", "*.toml", "Makefile", ".ci/*", "docs/*")


@cache
def tree() -> list[File]:
    paths = [path for package in (*MAY_IMPORT, "tests") for path in sorted((ROOT / package).rglob("*.py"))]
    return [File(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    found = [line for file in tree() if (rule.__name__, file.path) not in EXCEPTIONS for line in rule(file)]
    assert found == []


def test_no_exception_outlives_its_need() -> None:
    files = {file.path: file for file in tree()}
    rules = {rule.__name__: rule for rule in RULES}
    stale = [key for key in EXCEPTIONS if key[1] not in files or not list(rules[key[0]](files[key[1]]))]
    assert stale == []


def test_every_file_is_used() -> None:
    assert list(tidy.never_imported(tree(), ENTRY_POINTS)) == []


def test_every_entry_point_exists() -> None:
    assert [path for path in ENTRY_POINTS if not (ROOT / path).exists()] == []


def test_no_text_points_outside_of_the_project() -> None:
    texts = [path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()]
    texts += [path for package in MAY_IMPORT for path in (ROOT / package).glob("*.md")]
    assert ROOT / "README.md" in texts
    found = [line for path in texts for line in tidy.outside_mentions(File(path.name, path.read_text()))]
    assert found == []


# --- each rule catches what it is for ---------------------------------------------------------------------------------

LONG_FUNCTION = "def long():\n" + "    pass\n" * tidy.FUNCTION_LINES_MAX
PLANTED: list[tuple[Rule, str, str, str]] = [
    (tidy.import_directions, "statemachine/a.py", "import node.clock", "may import nothing of ours"),
    (tidy.import_directions, "statemachine/a.py", "from raftlog import disk", "may import nothing of ours"),
    (tidy.import_directions, "raftlog/a.py", "from statemachine.records import Job", "may import nothing of ours"),
    (tidy.import_directions, "executor/a.py", "def f():\n    import raftlog", "may import nothing of ours"),
    (tidy.import_directions, "httpapi/a.py", "from node.clock import Clock", "may import node.interface"),
    (tidy.import_directions, "httpapi/a.py", "from statemachine import records", "may import node.interface"),
    (tidy.import_directions, "httpapi/a.py", "import node", "may import node.interface"),
    (tidy.import_directions, "node/a.py", "import httpapi.app", "may import statemachine, raftlog, executor"),
    (tidy.import_directions, "chaos/a.py", "import raftlog.node", "may import node.interface"),
    (tidy.import_directions, "chaos/workload.py", "from node.composition import compose", "may import node.interface"),
    (tidy.import_directions, "chaos/simulated_a.py", "import httpapi.app", "may import node.interface"),
    (tidy.import_directions, "bench/a.py", "import node.api", "may import node.clock"),
    (tidy.import_directions, "node/a.py", "from . import clock", "relative import"),
    (tidy.restricted_modules, "node/a.py", "import lmdb", "use their readers"),
    (tidy.restricted_modules, "node/a.py", "from pysyncobj.node import Node", "raftlog.interface"),
    (tidy.restricted_modules, "raftlog/a.py", "import pickle", "msgspec"),
    (tidy.restricted_modules, "raftlog/a.py", "from time import monotonic", "node.clock"),
    (tidy.restricted_modules, "node/ticker.py", "import time", "node.clock"),
    (tidy.pure_statemachine, "statemachine/a.py", "import random", "the proposer decides"),
    (tidy.pure_statemachine, "statemachine/a.py", "from os import path", "take a path"),
    (tidy.pure_statemachine, "statemachine/a.py", "import logging.handlers", "an event"),
    (tidy.clock_calls, "statemachine/a.py", "datetime.now(UTC)", "node.clock"),
    (tidy.clock_calls, "node/a.py", "datetime.datetime.utcnow()", "node.clock"),
    (tidy.clock_calls, "httpapi/a.py", "date.today()", "node.clock"),
    (tidy.banned_calls, "node/a.py", "asyncio.get_event_loop()", "get_running_loop"),
    (tidy.banned_calls, "tests/node/test_a.py", "eval('1')", "literal_eval"),
    (tidy.printing, "raftlog/a.py", "print(1)", "log it"),
    (tidy.printing, "node/serve.py", "click.echo(1)", "log it"),
    (tidy.sizes, "node/a.py", LONG_FUNCTION, "long has 71 lines"),
    (tidy.sizes, "tests/node/test_a.py", "\n" * 401, "401 lines"),
    (tidy.names, "node/utils.py", "", "vague name"),
    (tidy.names, "node/time_helpers.py", "", "vague name"),
    (tidy.names, "node/a.py", "class SessionManager: ...", "SessionManager is a vague name"),
    (tidy.names, "node/a.py", "def common_part(): ...", "common_part is a vague name"),
    (tidy.leftovers, "node/a.py", "x = 1  # FIX" + "ME later", "left over"),
    (tidy.leftovers, "node/a.py", '"""TO' + 'DO: all."""', "left over"),
    (tidy.outside_mentions, "node/a.py", "# see ../sha" + "red/DESIGN.md", "outside of the project"),
    (tidy.outside_mentions, "node/a.py", "# as API.m" + "d has it", "outside of the project"),
    (tidy.outside_mentions, "node/a.py", "# the limit (DESI" + "GN §4.2)", "outside of the project"),
    (tidy.sleeping_tests, "tests/node/test_a.py", "import time\ntime.sleep(1)", "sleeps"),
    (tidy.sleeping_tests, "tests/node/test_a.py", "async def t():\n    await asyncio.sleep(delay)", "sleeps"),
    (tidy.flatness, "node/inner/a.py", "", "packages are flat"),
]


@pytest.mark.parametrize(("rule", "path", "text", "says"), PLANTED)
def test_a_planted_violation_is_caught(rule: Rule, path: str, text: str, says: str) -> None:
    [line] = rule(File(path, text))
    assert line.startswith(path)
    assert says in line


CLEAN = [
    ("statemachine/a.py", "import lmdb\nfrom statemachine.records import Job\nfrom datetime import UTC, datetime"),
    ("raftlog/a.py", "import lmdb, pysyncobj, random, socket, os"),
    ("httpapi/a.py", "from node.interface import Job\nfrom node import interface\nimport httpapi.problem"),
    ("node/cli_job.py", "import click\nfrom httpapi.client import Client\nclick.echo(1)\nprint(2)"),
    ("node/serve.py", "import httpapi.app"),
    ("chaos/simulated_node.py", "import node.composition, raftlog.node, statemachine.reader, executor.interface"),
    ("node/clock.py", "import time\ntime.time_ns()"),
    (
        "node/a.py",
        "import executor\nimport statemachine.reader\ntimeout = 1\nasync def f():\n    await asyncio.sleep(1)",
    ),
    ("bench/a.py", "from node.clock import Clock"),
    ("tests/node/test_a.py", "import lmdb, time\nasync def t():\n    await asyncio.sleep(0)\n    print(1)"),
    ("node/a.py", "class Commonwealth: ...\nasync def managed(): ...\nMAXX = 'to do'"),
    ("node/a.py", "def long():\n" + "    pass\n" * (tidy.FUNCTION_LINES_MAX - 1)),
]


@pytest.mark.parametrize(("path", "text"), CLEAN)
def test_what_is_allowed_is_not_caught(path: str, text: str) -> None:
    assert [line for rule in RULES for line in rule(File(path, text))] == []


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, *_ in PLANTED} == set(RULES)


def test_a_file_that_only_tests_import_counts_as_unused() -> None:
    files = [
        File("node/__init__.py", ""),
        File("node/cli.py", "from node import used\nimport node.deep\nlater = 'node.cli_late'"),
        File("node/cli_late.py", ""),
        File("node/used.py", ""),
        File("node/deep.py", ""),
        File("node/idle.py", "import node.idle"),
        File("tests/node/test_idle.py", "import node.idle"),
    ]
    [line] = tidy.never_imported(files, {"node/cli.py": "console script"})
    assert line == "node/idle.py: imported by nothing; use it or delete it"

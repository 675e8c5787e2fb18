"""What was asked of Horae, and what users of other schedulers were burnt by: each has a test whose docstring names it.

M1 to M25 are the lines of the design write-ups that the project began with; project#number is an issue of another
scheduler. `pytest -k` finds no docstrings: grep for the name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ASKED = ("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M11", "M16", "M17", "M18", "M19", "M20", "M22", "M25")
BURNT_BY = (
    *("dkron#1210", "dkron#998"),  # elections that lose ticks
    *("dkron#256", "dkron#460"),  # one-shots that were due while everything was down, lost for ever
    *("dkron#605", "river#791"),  # a job that falls off its schedule, or never runs because processes restart
    *("dkron#349", "nomad#11052", "nomad#5487"),  # overlap: blocked for ever; not held after a crash, nor by hand
    *("quartz#145", "dkron#316"),  # stuck in a state between two others; frozen by a dead worker's run
    *("quartz#107", "xxl-job#370", "redbeat#208"),  # a tick fired by two schedulers; two leaders
    *("xxl-job#2858", "dkron#1585"),  # lost with a process: a tick in memory, retries
    "apscheduler#864",  # a long job restarted because its claim was not renewed
    "kubernetes#42649",  # too many missed starts, and never again
    *("kubernetes#121594", "quartz#81", "nomad#5410", "celery#6438"),  # clock changes: twice, never, a flood, a freeze
    "dkron#1031",  # the next time shown is not the one that fires
    *("dkron#1322", "dkron#1177", "quartz#432"),  # thousands in one second
    *("dkron#1566", "dkron#547"),  # history that bloats; listings without pages
    "dkron#1001",  # nodes that come back with new addresses
    "pg_cron#105",  # a clock set back stalls jobs for hours
    "cronicle#263",  # no way to drop a backlog
    *("xxl-job#3938", "xxl-job#3375"),  # an empty default token; calls to internal addresses
)


def docstrings() -> Iterator[str]:
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield ast.get_docstring(node) or ""


@pytest.fixture(scope="module")
def named() -> frozenset[str]:
    return frozenset(name for text in docstrings() for name in re.findall(r"\bM\d+\b|[a-z_-]+#\d+", text))


@pytest.mark.parametrize("name", [*ASKED, *BURNT_BY])
def test_what_was_asked_has_a_test_that_names_it(named: frozenset[str], name: str) -> None:
    assert name in named

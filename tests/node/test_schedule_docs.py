"""docs/schedules.md says what the code does: its examples are run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from node.cli_schedule import schedule
from node.interface import SCHEDULES_MAX
from node.schedule import InvalidSchedule, ScheduleSpec, compile_schedule, instant_text, parse_run_at
from node.schedule_dates import SEARCH_YEARS_MAX
from node.schedule_grammar import EVERY_S_MAX, EXPRESSION_CHARACTERS_MAX
from node.schedule_hash import JITTER_S_MAX

TEXT = (Path(__file__).resolve().parent.parent.parent / "docs" / "schedules.md").read_text()
EXPRESSION = re.compile(r"`(@?[-\w*?,/#()~]+(?: [-\w*?,/#()~]+){4}|@[a-z]+(?: \w+)?)`")


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def accepted(expression: str) -> bool:
    try:
        compile_schedule(ScheduleSpec(expressions=(expression,), tz="Europe/Berlin"), "job")
    except InvalidSchedule:
        return False
    return True


def test_what_it_says_is_refused_is_refused_and_the_remedies_work() -> None:
    told = [(EXPRESSION.findall(row[0]), EXPRESSION.findall(row[-1])) for row in rows("What is refused")]
    refused = [expression for written, _ in told for expression in written]
    remedies = [expression for _, remedy in told for expression in remedy]
    assert len(refused) >= 6
    assert len(remedies) >= 6
    assert [expression for expression in refused if accepted(expression)] == []
    assert [expression for expression in remedies if not accepted(expression)] == []


@pytest.mark.parametrize("title", ["Expressions", "Clock changes"])
def test_the_expressions_that_it_explains_work(title: str) -> None:
    explained = [e for e in EXPRESSION.findall(section(title)) if not e.startswith("minute hour")]
    assert len(explained) >= 4
    assert [expression for expression in explained if not accepted(expression)] == []


def test_the_batch_that_it_shows_answers_as_shown() -> None:
    block = section("Many at once").split("```")[1].strip().splitlines()
    requests = [line for line in block if line.startswith("{")]
    answers = [json.loads(line.removeprefix("→ ")) for line in block if line.startswith("→ ")]
    result = CliRunner().invoke(schedule, ["preview", "--batch", "-"], input="\n".join(requests))
    assert [json.loads(line) for line in result.stdout.splitlines()] == answers
    assert len(answers) == 2


def test_the_limits_are_the_ones_of_the_code() -> None:
    limits = {row[0]: row[1] for row in rows("Limits")}
    assert limits["characters of an expression"] == str(EXPRESSION_CHARACTERS_MAX)
    assert limits["expressions of a job"] == str(SCHEDULES_MAX)
    assert limits["period of `@every`"] == f"1 s to {EVERY_S_MAX // 86_400} days"
    assert limits["search"].startswith(f"{SEARCH_YEARS_MAX} years")
    assert limits["`jitter_s`"] == f"{JITTER_S_MAX:,.0f}"


@pytest.mark.parametrize(
    ("expression", "choices", "march", "october"),
    [
        ("30 2 * * *", {}, ["01:00"], ["00:30"]),
        ("30 2 * * *", {"dst_gap": "skip", "dst_fold": "last"}, [], ["01:30"]),
        ("30 * * * *", {}, ["00:30", "01:30"], ["00:30", "01:30"]),
        ("*/30 2 * * *", {}, [], ["00:00", "00:30", "01:00", "01:30"]),
    ],
)
def test_the_table_of_clock_changes(
    expression: str, choices: dict[str, str], march: list[str], october: list[str]
) -> None:
    assert f"| `{expression}`" in section("Clock changes")
    spec = ScheduleSpec(expressions=(expression,), tz="Europe/Berlin", **choices)  # type: ignore[arg-type]
    ticks = compile_schedule(spec, "job")

    def told(day: str) -> list[str]:
        start_ms, end_ms = (parse_run_at(f"{day}T{time}Z", "UTC") for time in ("00:00:00", "01:59:59"))
        return [instant_text(t)[11:16] for t in ticks.between(start_ms - 1, end_ms, 99)]

    assert (told("2026-03-29"), told("2026-10-25")) == (march, october)

"""Transcripts: commands, the replies and events expected of them, and what the state then shows, with prose between.

HORAE_REWRITE_TRANSCRIPTS=1 in the environment writes what the machine does now into the files; a person reads the
diff. Lines: `#` prose, `at MS` sets the clock, `by NODE` the proposer, `> ` commands (consecutive ones are one
proposal), `? ` a question on the state, everything indented is what came of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemachine.records import RunState
from statemachine.snapshot import Snapshot
from tests.statemachine.driver import Driver
from tests.statemachine.notation import (
    format_event,
    format_record,
    format_reply,
    format_value,
    long_run_id,
    parse_command,
)

FOLDER = Path(__file__).parent / "testdata"
FILES = sorted(FOLDER.glob("*.txt"))
RUN_FIELDS = (
    *("state", "reason", "attempt", "token", "node", "ahead", "parked", "stop", "retry_at_ms", "count", "until_ms"),
    *("lease", "attempts"),
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path, driver: Driver) -> None:
    text = path.read_text()
    played = "".join(f"{line}\n" for line in play(text.splitlines(), driver))
    if os.environ.get("HORAE_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == text


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 8


def play(lines: list[str], driver: Driver) -> Iterator[str]:
    """The transcript as the machine has it: the questions as they stand, the answers anew."""
    now_ms, node, pending = 0, "n1", []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("at "):
            now_ms = int(line.removeprefix("at "))
        elif line.startswith("by "):
            node = line.removeprefix("by ")
        elif line.startswith("> "):
            pending.append(parse_command(line.removeprefix("> "), now_ms))
        if not line.startswith("  "):
            yield line
        if pending and not after.startswith("> "):
            yield from proposed(driver, pending, node)
            pending = []
        if line.startswith("? "):
            yield from asked(driver, line.removeprefix("? "))


def proposed(driver: Driver, commands: list, node: str) -> Iterator[str]:
    outcome = driver.apply(*commands, node=node)
    yield from (f"  {format_reply(reply)}" for reply in outcome.replies)
    yield from (f"  {format_event(topic, event)}" for topic, event in outcome.events)


def asked(driver: Driver, question: str) -> Iterator[str]:
    name, *words = question.split()
    with driver.snapshot() as snapshot:
        yield from (f"  {line}" for line in QUESTIONS[name](snapshot, *words))


def show_run(snapshot: Snapshot, short: str) -> Iterator[str]:
    run = snapshot.run(long_run_id(short))
    yield "unknown" if run is None else format_record(run, *RUN_FIELDS)


def show_runs(snapshot: Snapshot, job_id: str, *states: str) -> Iterator[str]:
    for run in snapshot.runs_of_job(job_id, [RunState(state) for state in states]).items:
        yield f"{format_value(run.run_id)} {format_record(run, *RUN_FIELDS)}"


def show_sessions(snapshot: Snapshot) -> Iterator[str]:
    for session in snapshot.sessions():
        fields = ("node", "incarnation", "live", "held_due", "held_ahead", "renewal", "draining", "suspect")
        yield format_record(session, *fields)
    for node, incarnation in snapshot.ended_sessions():
        yield f"to be given back: {node} {incarnation}"


def show_queue(snapshot: Snapshot) -> Iterator[str]:
    depth = {priority: count for priority, count in enumerate(snapshot.queue_depth()) if count}
    yield " ".join(f"{count} of priority {priority}" for priority, count in depth.items()) or "empty"


def show_claims(snapshot: Snapshot, node: str, incarnation: str) -> Iterator[str]:
    yield " ".join(f"{format_value(run_id)}#{token}" for run_id, token in snapshot.claims_of(node, int(incarnation)))


def show_outbox(snapshot: Snapshot) -> Iterator[str]:
    owed = list(snapshot.notifications_until(2**47 - 1))
    assert len(owed) == snapshot.notifications_pending()
    yield from (format_record(one) for one in owed) if owed else ["empty"]


def show_timers(snapshot: Snapshot) -> Iterator[str]:
    for at_ms, _, run_id, entry in snapshot.timers_until(2**47 - 1):
        yield f"{at_ms} {format_value(run_id)} {format_record(entry)}"


def show_teams(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.team_names():
        use = snapshot.team_use(name)
        team = snapshot.team(name)
        settings = "the defaults" if team is None else format_record(team)
        yield f"{name}: {use.jobs} jobs, holds {use.held} ({use.held_ahead} ahead); {settings}"


def show_deadlines(snapshot: Snapshot) -> Iterator[str]:
    for at_ms, _, run_id in snapshot.deadlines_until(2**47 - 1):
        yield f"{at_ms} {format_value(run_id)}"


def show_dead(snapshot: Snapshot) -> Iterator[str]:
    yield " ".join(format_value(run.run_id) for run in snapshot.dead_runs().items) or "none"


def show_parked(snapshot: Snapshot, job_id: str) -> Iterator[str]:
    yield " ".join(format_value(run_id) for run_id in snapshot.parked_of(job_id)) or "none"


QUESTIONS: dict[str, Callable[..., Iterator[str]]] = {
    "run": show_run,
    "runs": show_runs,
    "sessions": show_sessions,
    "queue": show_queue,
    "claims": show_claims,
    "timers": show_timers,
    "parked": show_parked,
    "dead": show_dead,
    "deadlines": show_deadlines,
    "teams": show_teams,
    "outbox": show_outbox,
    "next": lambda snapshot, job_id: iter([format_value(snapshot.next_run_ms(job_id))]),
    "calendars": lambda snapshot: iter([format_record(calendar) for calendar in snapshot.calendars()]),
    "backfills": lambda snapshot, job_id: iter([format_record(one) for one in snapshot.backfills_of(job_id)]),
    "clock": lambda snapshot: iter([format_value(snapshot.clock_ms())]),
    "stats": lambda snapshot, job_id: iter([format_record(snapshot.job_stats(job_id)) or "nothing"]),
    "counters": lambda snapshot: iter([format_record(snapshot.counters())]),
    "job": lambda snapshot, job_id: iter([format_value(snapshot.job(job_id))]),
}

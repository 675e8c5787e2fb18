"""What `horae demo` shows: lines for a pipe, or a live screen of nodes, jobs and the latest runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from node.cli_demo_nodes import DemoNode

Run = Mapping[str, Any]

RUNS_REMEMBERED = 40
RUNS_SHOWN_LEAST = 3
HEADINGS = 8
"""Lines of the live screen besides its rows: three headings, three blanks, the hint, and the cursor's."""
NOTES_SHOWN = 3
RUNS_KEPT = 2_000
"""Runs whose last state is remembered; older ones are final long since."""
SHOWN_STATES = frozenset({"running", "retrying", "succeeded", "dead", "skipped", "cancelled"})
"""States worth a line; `scheduled`, `queued` and `claimed` pass in milliseconds or only lie ahead."""


@dataclass
class Feed:
    """What has happened so far, from the runs that polling finds."""

    names: dict[str, str] = field(default_factory=dict)
    """Job id → name."""
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """Job name → how many runs ended in which state, and how many retries there were."""
    latest: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add_job(self, job_id: str, name: str) -> None:
        self.names[job_id] = name
        self.counts[name] = Counter()

    def add_note(self, text: str) -> None:
        self.notes = [*self.notes, text][-NOTES_SHOWN:]

    def take(self, runs: Iterable[Run]) -> list[Run]:
        """The runs of a poll that are new or have moved on, oldest first; they are counted and remembered."""
        moved = [run for run in runs if run["state"] in SHOWN_STATES and self._has_moved(run)]
        moved.sort(key=lambda run: (run["due_at"], run["run_id"]))
        for run in moved:
            self._count(run)
        ids = {run["run_id"] for run in moved}
        self.latest = ([run for run in self.latest if run["run_id"] not in ids] + moved)[-RUNS_REMEMBERED:]
        return moved

    def _has_moved(self, run: Run) -> bool:
        now = (run["state"], run["attempt"])
        moved = self._seen.pop(run["run_id"], None) != now
        self._seen[run["run_id"]] = now
        while len(self._seen) > RUNS_KEPT:
            del self._seen[next(iter(self._seen))]
        return moved

    def _count(self, run: Run) -> None:
        counts = self.counts[self.name_of(run)]
        if run["state"] == "skipped":
            counts["skipped"] += run.get("count", 1)
        elif run["finished_at"] is not None and run["state"] in ("succeeded", "dead", "cancelled"):
            counts[run["state"]] += 1
            counts["retries"] += run["attempt"] - 1

    def name_of(self, run: Run) -> str:
        return self.names[run["job_id"]]


def line(feed: Feed, run: Run) -> str:
    """One run as one line."""
    return f"{clock_time(run['due_at'])}  {feed.name_of(run):<12}  {run['state']:<9}  {remark(run)}"


def clock_time(instant: str) -> str:
    """The time of day of an RFC 3339 instant, to the second (UTC)."""
    return instant[11:19]


def remark(run: Run) -> str:
    """Where it ran, how late it began, and what went wrong."""
    parts = []
    if run["node"] is not None:
        parts.append(f"on {run['node']}")
    if run["attempt"] > 1:
        parts.append(f"attempt {run['attempt']}")
    if run["attempts"] and run["attempts"][0]["started_at"] is not None:
        parts.append(f"+{delay_ms(run['release_at'], run['attempts'][0]['started_at'])} ms")
    if run["state"] in ("retrying", "dead") and run["attempts"]:
        parts.append(str(run["attempts"][-1].get("detail") or run["attempts"][-1]["outcome"]))
    elif run["reason"] is not None:
        parts.append(str(run["reason"]))
    return ", ".join(parts)


def delay_ms(release_at: str, started_at: str) -> int:
    """From the time a run was meant to start to when its first attempt did."""
    from datetime import datetime, timedelta

    delay = datetime.fromisoformat(started_at) - datetime.fromisoformat(release_at)
    return delay // timedelta(milliseconds=1)


def screen(
    feed: Feed, nodes: Sequence[DemoNode], cluster: Mapping[str, Any] | None, *, hint: str, height: int
) -> RenderableType:
    """The live screen, in `height` lines: what does not fit would be cut at its end, so the runs come last."""
    from rich.console import Group
    from rich.text import Text

    blank = Text("")
    parts: list[RenderableType] = [_nodes_table(nodes, cluster), blank, _jobs_table(feed), blank]
    parts += [Text(hint, style="bold"), *(Text(note, style="yellow") for note in feed.notes), blank]
    fixed = len(nodes) + len(feed.counts) + len(feed.notes) + HEADINGS
    return Group(*parts, _runs_table(feed, rows=max(height - fixed, RUNS_SHOWN_LEAST)))


def _grid(*columns: str) -> Table:
    from rich.table import Table

    return Table(*columns, box=None, padding=(0, 3, 0, 0), header_style="dim")


def _nodes_table(nodes: Sequence[DemoNode], cluster: Mapping[str, Any] | None) -> RenderableType:
    known = {one["node"]: one for one in (cluster or {}).get("nodes", ())}
    grid = _grid("NODE", "PID", "API", "", "ROLE", "BUCKETS")
    for one in nodes:
        seen = known.get(one.node, {})
        role = "-" if one.ending else str(seen.get("role", "-"))
        style = "red" if one.ending else "bold green" if role == "leader" else None
        cells = (one.node, one.pid, f"http://{one.http}", one.condition, role, seen.get("buckets", "-"))
        grid.add_row(*map(str, cells), style=style)
    return grid


def _jobs_table(feed: Feed) -> RenderableType:
    columns = ("succeeded", "retries", "skipped", "dead")
    grid = _grid("JOB", *(column.upper() for column in columns))
    for name, counts in feed.counts.items():
        grid.add_row(name, *(str(counts[column]) for column in columns))
    return grid


def _runs_table(feed: Feed, *, rows: int) -> RenderableType:
    from node.cli_output import STATE_COLORS

    grid = _grid("DUE (UTC)", "JOB", "STATE", "")
    for run in list(reversed(feed.latest))[:rows]:
        style = STATE_COLORS.get(run["state"])
        grid.add_row(clock_time(run["due_at"]), feed.name_of(run), run["state"], remark(run), style=style)
    return grid

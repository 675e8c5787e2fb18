"""`horae chaos sim`: seeds of simulated clusters, judged, and what is said about them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import click

from bench.machine import commit_of_build
from chaos.campaign import FAULT_KINDS, Campaign, SeedVerdict
from chaos.history_file import write_history
from chaos.seed_workers import run_campaign
from chaos.shrinking import shrink_seed
from node.cli_chaos_report import PAGE, write_page
from node.clock import SystemClock

SHOWN_MAX = 10
LINES_MAX = 20
"""So many seeds have a line each; of more, those that failed, and a sum now and then."""
SUM_EVERY = 100
SHRUNK_MAX = 3
"""Failed seeds of one campaign whose schedules are shrunk."""


def _kinds(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    chosen = FAULT_KINDS if value is None else tuple(part.strip() for part in value.split(","))
    unknown = [kind for kind in chosen if kind not in FAULT_KINDS]
    if unknown:
        raise click.BadParameter(f"there is no fault {unknown[0]!r}; there are {', '.join(FAULT_KINDS)}")
    return chosen


def _numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    parts = [] if value.strip() == "none" else value.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter("give numbers of faults, as 3,7,9, or none")
    return tuple(sorted({int(part) for part in parts}))


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--nodes", type=click.Choice(["3", "5"]), default="3", show_default=True)
@click.option("--steps", type=click.IntRange(0, 1000), default=12, show_default=True, help="Faults injected a seed.")
@click.option("--faults", callback=_kinds, help="Only these kinds, separated by commas.  [default: all]")
@click.option("--only", callback=_numbers, help="Only the faults of these numbers, of 1 to --steps; or none.")
@click.option("--jobs", type=click.IntRange(1), help="Seeds at once, a process each.  [default: one a processor]")
@click.option("--stop-after", type=click.IntRange(1), help="End when so many seeds have failed.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Find the faults that a failure takes.")
@click.option("--report", "page", type=PAGE, help="Write a page about the seed here.")
@click.option("--history", "record", type=PAGE, help="Write the seed's history here, for `horae chaos report`.")
@click.option("--verbose", is_flag=True, help="Show what the nodes log; one seed at a time.")
def sim(
    seed: int,
    seeds: int,
    nodes: str,
    steps: int,
    faults: tuple[str, ...],
    only: tuple[int, ...] | None,
    jobs: int | None,
    stop_after: int | None,
    shrink: bool,
    page: Path | None,
    record: Path | None,
    verbose: bool,
) -> None:
    """Simulate whole clusters on virtual time: the same seed does the same, byte for byte.

    Exits with 1 when a promise was not kept, and prints the command that shows it again, with as few faults as it
    takes.

    \b
    Examples:
      horae chaos sim --seeds 5000
      horae chaos sim --seed 42 --nodes 5 --faults kill,partition
      horae chaos sim --seed 42 --only 3,7 --report page.html
    """
    keep = page is not None or record is not None
    if keep and seeds > 1:
        raise click.UsageError("--report and --history are about one seed")
    if not verbose:
        _silence_nodes(click.get_current_context())
    campaign = Campaign(
        first_seed=seed,
        seeds=seeds,
        nodes=int(nodes),
        steps=steps,
        faults=faults,
        only=only,
        commit=commit_of_build() if keep else "",
        keep_history=keep,
    )
    workers = 1 if verbose else min(jobs or os.cpu_count() or 1, seeds)
    clock = SystemClock()
    report = _Report(seeds=seeds, began_s=clock.monotonic())
    with closing(run_campaign(campaign, clock.monotonic, jobs=workers)) as verdicts:
        for verdict in _until(verdicts, stop_after):
            report.take(verdict, clock.monotonic())
            _keep(verdict, page, record)
    for failed in report.failed[:SHRUNK_MAX] if shrink else ():
        _shrink(failed, campaign, clock)
    report.conclude(clock.monotonic())
    if report.failed:
        raise SystemExit(1)


def _silence_nodes(context: click.Context) -> None:
    """What they log says nothing here, until the command ends: whoever called it in this process logs on."""
    before = logging.root.manager.disable
    context.call_on_close(lambda: logging.disable(before))
    logging.disable(logging.CRITICAL)


def _keep(verdict: SeedVerdict, page: Path | None, record: Path | None) -> None:
    if verdict.history is None:
        return
    if page is not None:
        write_page(page, verdict.history)
    if record is not None:
        write_history(record, verdict.history)


def _until(verdicts: Iterable[SeedVerdict], stop_after: int | None) -> Iterator[SeedVerdict]:
    failed = 0
    for verdict in verdicts:
        yield verdict
        failed += bool(verdict.violations)
        if failed == stop_after:
            return


@dataclass(kw_only=True)
class _Report:
    """What the terminal, or the log of CI, is told while the seeds go by."""

    seeds: int
    began_s: float
    done: int = 0
    virtual_s: float = 0.0
    failed: list[SeedVerdict] = field(default_factory=list)

    def take(self, verdict: SeedVerdict, now_s: float) -> None:
        self.done += 1
        self.virtual_s += verdict.virtual_s
        if verdict.violations:
            self.failed.append(verdict)
        if self.seeds <= LINES_MAX or verdict.violations:
            self._clear()
            _show(verdict)
        elif self.done % SUM_EVERY == 0:
            self._clear()
            click.echo(self._sum(now_s))
        if sys.stderr.isatty() and self.seeds > 1:
            click.echo(f"\r{self._sum(now_s)}", nl=False, err=True)

    def _clear(self) -> None:
        """The line of the progress makes room."""
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)

    def _sum(self, now_s: float) -> str:
        took_s = now_s - self.began_s
        return f"{self.done} of {self.seeds} seeds, {len(self.failed)} failed, {took_s / self.done:.2f} s a seed"

    def conclude(self, now_s: float) -> None:
        self._clear()
        took_s = max(now_s - self.began_s, 1e-3)
        click.echo(
            f"{'FAILED' if self.failed else 'passed'}: {self.done - len(self.failed)} of {self.done} seeds kept all"
            f" promises; {self.virtual_s:.0f} s simulated in {took_s:.0f} s"
            f" ({self.virtual_s / took_s:.0f} times real time)"
        )


def _show(verdict: SeedVerdict) -> None:
    late = verdict.healthy_lateness
    click.echo(
        f"seed {verdict.seed}: {'FAILED' if verdict.violations else 'ok'}, {verdict.virtual_s:.0f} s,"
        f" {verdict.operations} requests, {verdict.effects} attempts, {verdict.entries} entries,"
        f" late p99 {late.p99_s * 1000:.0f} ms, trace {verdict.trace[:16]}"
    )
    _show_some([str(violation) for violation in verdict.violations])
    if verdict.violations:
        click.echo(f"  again: {verdict.replay}")


def _show_some(lines: Sequence[str]) -> None:
    for line in lines[:SHOWN_MAX]:
        click.echo(f"  {line}")
    if len(lines) > SHOWN_MAX:
        click.echo(f"  and {len(lines) - SHOWN_MAX} more")


def _shrink(failed: SeedVerdict, campaign: Campaign, clock: SystemClock) -> None:
    shrunk = shrink_seed(failed, campaign, clock.monotonic)
    least = "" if shrunk.minimal else "at most "
    click.echo(
        f"seed {failed.seed}: it takes {least}{shrunk.faults} of {len(campaign.numbers)} faults ({shrunk.tries} runs)"
    )
    for line in shrunk.verdict.faults:
        click.echo(f"  {line}")
    click.echo(f"  {shrunk.verdict.violations[0]}")
    click.echo(f"  again: {shrunk.verdict.replay}")

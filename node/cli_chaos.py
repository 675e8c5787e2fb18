"""`horae chaos`: the command line of chaos/."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import click

from bench.machine import commit_of_build
from chaos.campaign import FAULT_KINDS, Campaign, SeedVerdict, run_campaign
from chaos.history_file import write_history
from node.cli_chaos_live import live
from node.cli_chaos_report import PAGE, report, write_page
from node.clock import SystemClock

SHOWN_MAX = 10


@click.group()
def chaos() -> None:
    """Break things on purpose, and judge what held.

    \b
    Examples:
      horae chaos sim --seeds 100
      horae chaos live --duration 2m
      horae chaos report history.jsonl -o page.html
    """


chaos.add_command(live)
chaos.add_command(report)


def _kinds(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    chosen = FAULT_KINDS if value is None else tuple(part.strip() for part in value.split(","))
    unknown = [kind for kind in chosen if kind not in FAULT_KINDS]
    if unknown:
        raise click.BadParameter(f"there is no fault {unknown[0]!r}; there are {', '.join(FAULT_KINDS)}")
    return chosen


@chaos.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="How many, one after another.")
@click.option("--nodes", type=click.Choice(["3", "5"]), default="3", show_default=True)
@click.option("--steps", type=click.IntRange(0, 1000), default=12, show_default=True, help="Faults injected a seed.")
@click.option("--faults", callback=_kinds, help="Only these kinds, separated by commas.  [default: all]")
@click.option("--report", "page", type=PAGE, help="Write a page about the seed here.")
@click.option("--history", "record", type=PAGE, help="Write the seed's history here, for `horae chaos report`.")
@click.option("--verbose", is_flag=True, help="Show what the nodes log.")
def sim(
    seed: int,
    seeds: int,
    nodes: str,
    steps: int,
    faults: tuple[str, ...],
    page: Path | None,
    record: Path | None,
    verbose: bool,
) -> None:
    """Simulate whole clusters on virtual time: the same seed does the same, byte for byte.

    Exits with 1 when a promise was not kept, and prints the command that shows it again.

    \b
    Examples:
      horae chaos sim --seeds 100
      horae chaos sim --seed 42 --nodes 5 --faults kill,partition
      horae chaos sim --seed 42 --report page.html
    """
    keep = page is not None or record is not None
    if keep and seeds > 1:
        raise click.UsageError("--report and --history are about one seed")
    logging.disable(logging.NOTSET if verbose else logging.CRITICAL)
    campaign = Campaign(
        first_seed=seed,
        seeds=seeds,
        nodes=int(nodes),
        steps=steps,
        faults=faults,
        commit=commit_of_build() if keep else "",
        keep_history=keep,
    )
    verdicts = []
    for verdict in run_campaign(campaign, SystemClock().monotonic):
        _show(verdict)
        _keep(verdict, page, record)
        verdicts.append(replace(verdict, history=None))
    failed = [verdict for verdict in verdicts if verdict.violations]
    virtual_s, real_s = sum(one.virtual_s for one in verdicts), sum(one.real_s for one in verdicts)
    click.echo(
        f"{'FAILED' if failed else 'passed'}: {len(verdicts) - len(failed)} of {len(verdicts)} seeds kept all promises;"
        f" {virtual_s:.0f} s simulated in {real_s:.0f} s ({virtual_s / real_s:.0f} times real time)"
    )
    if failed:
        raise SystemExit(1)


def _keep(verdict: SeedVerdict, page: Path | None, record: Path | None) -> None:
    if verdict.history is None:
        return
    if page is not None:
        write_page(page, verdict.history)
    if record is not None:
        write_history(record, verdict.history)


def _show(verdict: SeedVerdict) -> None:
    late = verdict.healthy_lateness
    click.echo(
        f"seed {verdict.seed}: {'FAILED' if verdict.violations else 'ok'}, {verdict.virtual_s:.0f} s,"
        f" {verdict.operations} requests, {verdict.effects} attempts, {verdict.entries} entries,"
        f" late p99 {late.p99_s * 1000:.0f} ms, trace {verdict.trace[:16]}"
    )
    for violation in verdict.violations[:SHOWN_MAX]:
        click.echo(f"  {violation}")
    if len(verdict.violations) > SHOWN_MAX:
        click.echo(f"  and {len(verdict.violations) - SHOWN_MAX} more")
    if verdict.violations:
        click.echo(f"  again: {verdict.replay}")

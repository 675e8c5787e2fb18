"""`horae chaos live`: faults for real processes."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import signal
import tempfile
from pathlib import Path

import click

from bench.machine import commit_of_build
from chaos.check_lateness import RECOVERED_S, lateness_of
from chaos.live_clock import libfaketime
from chaos.live_faults import KINDS, WITHOUT_NAMESPACES
from chaos.live_network import NetworkFailed, missing_tools
from chaos.live_run import LivePlan, LiveRun, LiveVerdict
from chaos.verdict import judge, one_line
from node.cli_chaos_report import PAGE, write_page
from node.clock import SystemClock

SHOWN_MAX = 20
COULD_NOT_RUN = 2
SEEDS = 2**31
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _duration_s(context: click.Context, parameter: click.Parameter, text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{text!r}: write a number and its unit, such as 90s or 10m")
    return float(found[1]) * UNITS_S[found[2]]


def _nemeses(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    chosen = tuple(part.strip() for part in text.split(","))
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown:
        raise click.BadParameter(f"there is no nemesis {unknown[0]!r}; there are {', '.join(KINDS)}")
    return chosen


@click.command()
@click.option("--seed", type=click.IntRange(0), help="What the faults are drawn from.  [default: another each time]")
@click.option("--nodes", type=click.Choice(["3", "5"]), default="3", show_default=True)
@click.option(
    "--duration", default="10m", show_default=True, callback=_duration_s, help="Of the faults; judging comes on top."
)
@click.option("--nemesis", callback=_nemeses, help="Only these, separated by commas.  [default: all]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep everything here, passed or not.")
@click.option("--report", "page", type=PAGE, help="Write a page about the run here.")
@click.option("--verbose", is_flag=True, help="Show the faults as they come.")
def live(
    seed: int | None,
    nodes: str,
    duration: float,
    nemesis: tuple[str, ...] | None,
    out: Path | None,
    page: Path | None,
    verbose: bool,
) -> None:
    """Break a cluster of real processes, each in a network of its own, and judge what held.

    Needs root, iproute2 and iptables (clock jumps: libfaketime); where that is not given it says so and kills and
    pauses only. Exits with 1 when a promise was not kept, with 2 when it could not run.

    \b
    Examples:
      horae chaos live --duration 2m
      horae chaos live --nodes 5 --nemesis kill,pause,partition --seed 7
    """
    clock = SystemClock()
    plan = _plan(secrets.randbelow(SEEDS) if seed is None else seed, int(nodes), duration, nemesis)
    root = Path(tempfile.mkdtemp(prefix="horae-chaos-")) if out is None else out
    root.mkdir(parents=True, exist_ok=True)
    say = click.echo if verbose else _silent
    run = LiveRun(plan, root, monotonic=clock.monotonic, wall_ms=clock.wall_ms, say=say)
    try:
        verdict = asyncio.run(_until_told(run))
    except (NetworkFailed, OSError) as error:
        click.echo(f"COULD NOT RUN: {error}; see {root}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    _show(plan, verdict)
    if page is not None:
        write_page(page, verdict.history)
    click.echo(one_line(judge(verdict.history)))
    if verdict.violations:
        click.echo(f"  again: {plan.command}\n  kept: {root}")
        raise SystemExit(1)
    if out is None:
        shutil.rmtree(root)


def _plan(seed: int, nodes: int, duration_s: float, nemesis: tuple[str, ...] | None) -> LivePlan:
    missing = missing_tools()
    kinds = nemesis or KINDS
    possible = kinds if not missing else tuple(kind for kind in kinds if kind in WITHOUT_NAMESPACES)
    if missing:
        kept = ", ".join(WITHOUT_NAMESPACES)
        click.echo(f"no network namespaces here ({', '.join(missing)}): only {kept}, on loopback")
    if "clock" in possible and libfaketime() is None:
        click.echo("no libfaketime here: the clocks stay right")
        possible = tuple(kind for kind in possible if kind != "clock")
    if not possible:
        click.echo("COULD NOT RUN: none of these nemeses is possible here", err=True)
        raise SystemExit(COULD_NOT_RUN)
    return LivePlan(
        seed=seed,
        nodes=nodes,
        duration_s=duration_s,
        nemeses=possible,
        isolated=not missing,
        commit=commit_of_build(),
    )


async def _until_told(run: LiveRun) -> LiveVerdict:
    """SIGTERM ends it as Ctrl-C does: with everything cleaned up."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await run.run()
    except TimeoutError as error:
        raise OSError(str(error)) from None


def _silent(line: str) -> None:
    """Nobody wants to read it."""


def _show(plan: LivePlan, verdict: LiveVerdict) -> None:
    history, late = verdict.history, lateness_of(verdict.history, verdict.history.healed_s + RECOVERED_S)
    for violation in verdict.violations[:SHOWN_MAX]:
        click.echo(f"  {violation}")
    if len(verdict.violations) > SHOWN_MAX:
        click.echo(f"  and {len(verdict.violations) - SHOWN_MAX} more")
    told = "FAILED" if verdict.violations else "passed"
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(verdict.faults.items()))
    click.echo(
        f"{told}: seed {plan.seed}, {plan.nodes} nodes, {plan.duration_s:g} s of"
        f" faults ({faults}), {len(history.operations)} requests, {len(history.effects)} attempts,"
        f" {verdict.entries} entries, late p99 {late.p99_s * 1000:.0f} ms, commit {plan.commit}"
    )

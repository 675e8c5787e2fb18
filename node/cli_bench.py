"""`horae bench`: the command line of bench/."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click
from rich.console import Console

from bench.burst import Burst
from bench.callbacks import Callbacks
from bench.errors import BenchFailed
from bench.fairness import Fairness
from bench.local_cluster import NodeDied
from bench.run import BenchSettings, run_bench
from bench.sustained import Sustained

WORKS = ("B1", "B2", "B3", "B6", "B7", "B8")


@click.command()
@click.argument("works", nargs=-1, type=click.Choice(WORKS, case_sensitive=False))
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How to print."
)
@click.option("--runs", "rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds of each work.")
@click.option("--jobs", type=click.IntRange(1), default=10_000, show_default=True, help="B1: jobs due in one second.")
@click.option(
    "--callbacks", type=click.IntRange(1), default=5_000, show_default=True, help="B2: jobs due in one second."
)
@click.option("--rate", type=click.IntRange(1), default=1_000, show_default=True, help="B3, B6: runs a second.")
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True, help="B3: how long.")
@click.option(
    "--every", type=click.IntRange(1), default=1, show_default=True, help="B3, B6: period of a job in seconds."
)
@click.option("--failover-seconds", type=click.IntRange(24), default=40, show_default=True, help="B6: how long.")
@click.option("--writes", type=click.IntRange(1), default=200, show_default=True, help="B7: at each of two nodes.")
@click.option("--crowd", type=click.IntRange(1), default=10_000, show_default=True, help="B8: runs of the big team.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Where the nodes keep their data, on the disk to be measured. [default: a temporary one]",
)
def bench(
    works: tuple[str, ...],
    output: str,
    rounds: int,
    jobs: int,
    callbacks: int,
    rate: int,
    seconds: int,
    every: int,
    failover_seconds: int,
    writes: int,
    crowd: int,
    directory: Path | None,
) -> None:
    """Measure a cluster of three nodes that is started for it: B1 burst, B2 callbacks, B3 sustained, B6 failover, B7
    commit latency, B8 fairness between teams (all, if none is named).

    \b
    Examples:
      horae bench B1
      horae bench B3 --rate 2000 --seconds 30 --runs 1 -o json
    """
    settings = BenchSettings(
        works=works or WORKS,
        rounds=rounds,
        burst=Burst(jobs=jobs),
        callbacks=Callbacks(jobs=callbacks),
        sustained=Sustained(rate=rate, seconds=seconds, every_s=every),
        failover_seconds=failover_seconds,
        writes=writes,
        fairness=Fairness(jobs=crowd),
        directory=directory,
    )
    console = Console(stderr=True)
    try:
        with console.status("starting") as status:
            report = asyncio.run(run_bench(settings, status.update))
    except (BenchFailed, NodeDied, TimeoutError) as error:
        raise click.ClickException(str(error) or "the cluster did not answer in time") from error
    if output == "json":
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        Console().print(report.as_table())

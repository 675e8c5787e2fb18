"""`horae chaos`: the command line of chaos/."""

from __future__ import annotations

import click

from node.cli_chaos_live import live
from node.cli_chaos_report import report
from node.cli_chaos_sim import sim


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
chaos.add_command(sim)

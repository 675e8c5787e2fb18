"""`horae demo`: three nodes on loopback and sample jobs, to watch and to kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from node.cli_demo_watch import Demo


@click.command()
@click.option("--duration", type=click.FloatRange(min=0), help="End after this many seconds. [default: at Ctrl-C]")
@click.option("--plain", is_flag=True, help="Lines instead of a live screen (the default without a terminal).")
def demo(duration: float | None, plain: bool) -> None:
    """Start three nodes on loopback with sample jobs and show their runs as they arrive. Ctrl-C cleans up everything.

    \b
    Examples:
      horae demo
      horae demo --duration 30 --plain
    """
    import asyncio
    import sys
    import tempfile
    from pathlib import Path

    from node.cli_demo_watch import Demo, DemoFailed

    with tempfile.TemporaryDirectory(prefix="horae-demo-", ignore_cleanup_errors=True) as directory:
        show: Demo = Demo(Path(directory), plain=plain or not sys.stdout.isatty())
        try:
            asyncio.run(show.run(duration))
        except DemoFailed as failure:
            raise click.ClickException(str(failure)) from None

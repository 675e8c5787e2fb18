"""`horae chaos report`: what a run left behind, as a page for people and a line for machines."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import History
from chaos.history_file import NoHistory, read_history
from chaos.report import report_of
from chaos.verdict import has_passed, judge, one_line

PAGE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.argument("history_file", metavar="HISTORY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=PAGE, help="Write the page here.  [default: no page, only the verdict]")
def report(history_file: Path, output: Path | None) -> None:
    """Judge a recorded HISTORY again, and show it as one HTML page that needs nothing else.

    Exits with 1 when a promise was not kept.

    \b
    Examples:
      horae chaos report history.jsonl
      horae chaos report history.jsonl -o page.html
    """
    try:
        history = read_history(history_file)
    except (OSError, NoHistory) as error:
        raise click.BadParameter(str(error), param_hint="HISTORY") from None
    if output is not None:
        write_page(output, history)
    verdicts = judge(history)
    click.echo(one_line(verdicts))
    if not has_passed(verdicts):
        raise SystemExit(1)


def write_page(path: Path, history: History) -> None:
    path.write_text(report_of(history), encoding="utf-8")
    click.echo(f"report: {path}")

"""What commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

Json = Mapping[str, Any]

CELL_LENGTH_MAX = 80
"""Characters of one cell of a table; JSON has the whole. A run's id fits: one that is cut cannot be pasted."""
STATE_COLORS = {
    "succeeded": "green",
    "dead": "red",
    "failed": "red",
    "timed_out": "red",
    "lost": "red",
    "retrying": "yellow",
    "skipped": "yellow",
    "running": "cyan",
    "claimed": "cyan",
}

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    help="How to print. [default: table on a terminal, else json]",
)


def wants_json(output: str | None) -> bool:
    """The choice of -o; without one, tables are for terminals."""
    return output == "json" or (output is None and not (sys.stdout is not None and sys.stdout.isatty()))


def show(value: Any, output: str | None, as_text: Callable[[Any], str]) -> None:
    """Print the API's `value` as JSON, or what `as_text` makes of it."""
    if not wants_json(output):
        _print(as_text(value))
        return
    import msgspec

    _print(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _print(text: str | bytes) -> None:
    try:
        click.echo(text)
    except BrokenPipeError:
        raise  # click ends in silence: the reader has what it wanted
    except OSError as fault:
        raise click.ClickException(f"cannot print the answer: {fault.strerror}") from None


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell. Cells are cleaned: what a job is called must not steer a terminal."""
    cells = [list(columns), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return "\n".join(_line(row, widths, header=number == 0) for number, row in enumerate(cells))


def _line(row: Sequence[str], widths: Sequence[int], *, header: bool) -> str:
    padded = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
    padded[-1] = row[-1]
    painted = padded if header else [_paint(text) for text in padded]
    return "  ".join(painted).rstrip()


def _paint(text: str) -> str:
    color = STATE_COLORS.get(text.strip())
    return text if color is None else click.style(text, fg=color)


def cell(value: Any) -> str:
    """One value as printable text of bounded length."""
    if value is None or value == "":
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    printable = clean(text)
    return printable if len(printable) <= CELL_LENGTH_MAX else printable[: CELL_LENGTH_MAX - 1] + "…"


def clean(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def fields(pairs: Sequence[tuple[str, Any]]) -> str:
    """'name   value' lines."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}  {'-' if value is None else clean(str(value))}" for name, value in pairs)

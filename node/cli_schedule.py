"""`horae schedule`: what an expression means, worked out on this machine; needs no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, BinaryIO, Literal

import click
import msgspec
from click.core import ParameterSource

from node.cli_output import output_option, show, table
from node.clock import SystemClock
from node.schedule import (
    SPECIAL_MS,
    InvalidSchedule,
    Schedule,
    ScheduleSpec,
    compile_schedule,
    instant_text,
    parse_run_at,
)
from node.schedule_instants import known_zone
from node.zones import LAST_S, Zone, pin_tzdata, tzdata_version

TICKS_MAX = 10_000
LINE_BYTES_MAX = 64 * 1024


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `--batch`."""

    schedule: str | list[str]
    tz: str | None = None
    """Needed; its absence is refused like an unknown zone, with what to write."""
    from_: str = msgspec.field(name="from")
    n: Annotated[int, msgspec.Meta(ge=0, le=TICKS_MAX)] = 10
    job_id: str = ""
    dst_gap: Literal["after", "skip"] = "after"
    dst_fold: Literal["default", "first", "both", "last"] = "default"


@click.group()
def schedule() -> None:
    """What schedules mean.

    \b
    Example: horae schedule preview --tz Europe/Berlin "30 2 * * 1-5"
    """


@schedule.command()
@click.argument("expressions", nargs=-1, metavar="[EXPR]...")
@click.option("--tz", help="An IANA time zone, such as Europe/Berlin.")
@click.option("--from", "from_text", help="RFC 3339; without an offset it is read in --tz. Default: now.")
@click.option("-n", "count", type=click.IntRange(1, TICKS_MAX), default=10, show_default=True, help="How many ticks.")
@click.option("--job-id", default="", help="Whose H values are shown.")
@click.option(
    "--dst-gap",
    type=click.Choice(["after", "skip"]),
    default="after",
    show_default=True,
    help="What becomes of wall times that a clock change leaves out.",
)
@click.option(
    "--dst-fold",
    type=click.Choice(["default", "first", "both", "last"]),
    default="default",
    show_default=True,
    help="Which pass of wall times that come twice.",
)
@output_option
@click.option("--batch", type=click.File("rb"), help="JSON lines to preview, one answer each; - is standard input.")
def preview(
    expressions: tuple[str, ...],
    tz: str | None,
    from_text: str | None,
    count: int,
    job_id: str,
    dst_gap: Literal["after", "skip"],
    dst_fold: Literal["default", "first", "both", "last"],
    output: str | None,
    batch: BinaryIO | None,
) -> None:
    """Show the next ticks of a cron expression (of several: of their union), in words too.

    \b
    Examples:
      horae schedule preview --tz Europe/Berlin --from 2026-03-28T12:00:00 -n 5 "30 2 * * *"
      echo '{"schedule": "@daily", "tz": "UTC", "from": "2026-01-01T00:00:00Z", "n": 2}' |
        horae schedule preview --batch -
    """
    pin_tzdata()
    if batch is not None:
        _no_more_than_batch()
        _answer_batch(batch, sys.stdout.buffer)
        return
    if not expressions:
        raise click.UsageError('Give an expression, such as "0 2 * * *", or --batch.')
    if tz is None:
        raise click.UsageError("A schedule means something only in a time zone: give --tz, such as --tz Europe/Berlin.")
    spec = ScheduleSpec(expressions=expressions, tz=tz, dst_gap=dst_gap, dst_fold=dst_fold)
    try:
        compiled = compile_schedule(spec, job_id)
        from_ms = SystemClock().wall_ms() if from_text is None else parse_run_at(from_text, tz, field="from")
    except InvalidSchedule as refused:
        raise click.ClickException(str(refused)) from None
    ticks_ms = compiled.between(from_ms, LAST_S * 1000, count)
    special = [change.words for change in compiled.special(from_ms, from_ms + SPECIAL_MS)]
    answer = {
        "schedule": expressions,
        "tz": tz,
        "job_id": job_id,
        "description": compiled.describe(),
        "ticks": [instant_text(tick_ms) for tick_ms in ticks_ms],
        "special": special,
        "tzdata": tzdata_version(),
    }
    show(answer, output, lambda _: _as_text(compiled, known_zone(tz), ticks_ms, special))


def _no_more_than_batch() -> None:
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if given - {"batch", "output"}:
        raise click.UsageError("--batch takes everything else from its lines.")


def _answer_batch(lines: BinaryIO, answers: BinaryIO) -> None:
    for line in _bounded_lines(lines):
        answers.write(_answer_line(line) + b"\n")
        answers.flush()  # who writes a line and waits for its answer must not wait for ever


def _bounded_lines(lines: BinaryIO) -> Iterator[bytes | None]:
    """The lines in order; None for one that is longer than LINE_BYTES_MAX, which is never held as a whole."""
    while line := lines.readline(LINE_BYTES_MAX):
        is_cut = len(line) == LINE_BYTES_MAX and not line.endswith(b"\n")
        while is_cut and (rest := lines.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
            pass
        yield None if is_cut else line


def _answer_line(line: bytes | None) -> bytes:
    try:
        return msgspec.json.encode({"ticks": _ticks_of(line)})
    except InvalidSchedule as refused:
        return msgspec.json.encode({"error": str(refused)})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return msgspec.json.encode({"error": f"not a preview request: {error}"})


def _ticks_of(line: bytes | None) -> list[str]:
    if line is None:
        raise msgspec.DecodeError(f"the line is longer than {LINE_BYTES_MAX} bytes")
    request = _REQUEST.decode(line)
    expressions = (request.schedule,) if isinstance(request.schedule, str) else tuple(request.schedule)
    tz = request.tz or ""
    spec = ScheduleSpec(expressions=expressions, tz=tz, dst_gap=request.dst_gap, dst_fold=request.dst_fold)
    compiled = compile_schedule(spec, request.job_id)
    from_ms = parse_run_at(request.from_, tz, field="from")
    return [instant_text(tick_ms) for tick_ms in compiled.between(from_ms, LAST_S * 1000, request.n)]


_REQUEST = msgspec.json.Decoder(PreviewRequest)


def _as_text(compiled: Schedule, zone: Zone, ticks_ms: Sequence[int], special: Sequence[str]) -> str:
    rows = [(zone.local_text(tick_ms // 1000), instant_text(tick_ms)) for tick_ms in ticks_ms]
    ticks = table((zone.name, "UTC"), rows) if rows else "Nothing is to come."
    return "\n".join([compiled.describe(), "", ticks, *(["", *special] if special else [])])

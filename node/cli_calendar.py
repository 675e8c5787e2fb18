"""`horae calendar`: named days on which jobs do not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from node.cli_call import call, server_option
from node.cli_output import Json, cell, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client

LIST_DEFAULT = 50


@click.group()
def calendar() -> None:
    """Named days on which the jobs that name them do not run.

    \b
    Example:
      horae calendar set holidays --day 2026-12-25 --day 2026-12-31/2027-01-01 --tz Europe/Berlin
    """


@calendar.command("set")
@click.argument("name")
@click.option("--day", "days", multiple=True, required=True, help="2026-12-25, or a span 2026-12-24/2027-01-01.")
@click.option("--tz", help="Whose days they are. [default: each job's own zone]")
@click.option("--version", type=click.IntRange(0), help="Only if it still has this version; 0: if there is none.")
@server_option
@output_option
def set_calendar(
    server: str, output: str | None, name: str, days: tuple[str, ...], tz: str | None, version: int | None
) -> None:
    """Set the days of a calendar: these and no others. Counts for every tick that is not fired yet.

    \b
    Example:
      horae calendar set holidays --day 2026-12-25 --day 2026-12-31/2027-01-01
    """
    answer = call(server, lambda client: client.put_calendar(name, days, tz=tz, version=version))
    show(answer, output, lambda one: f"calendar {cell(one['name'])}, version {one['version']}")


@calendar.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=LIST_DEFAULT, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on from an earlier answer's next_cursor.")
@click.option("--all", "every", is_flag=True, help="All pages.")
@server_option
@output_option
def list_calendars(server: str, output: str | None, limit: int, cursor: str | None, every: bool) -> None:
    """List calendars.

    \b
    Example:
      horae calendar list
    """

    async def work(client: Client) -> Json:
        if every:
            return {"items": [one async for one in client.all_calendars()], "next_cursor": None}
        return await client.calendars(limit=limit, cursor=cursor)

    show(call(server, work), output, _table)


@calendar.command("show")
@click.argument("name")
@server_option
@output_option
def show_calendar(server: str, output: str | None, name: str) -> None:
    """Show the days of a calendar.

    \b
    Example:
      horae calendar show holidays
    """
    show(call(server, lambda client: client.calendar(name)), output, lambda one: "\n".join(map(cell, one["days"])))


@calendar.command()
@click.argument("name")
@click.option("--version", type=click.IntRange(1), help="Only if the calendar still has this version.")
@server_option
def delete(server: str, name: str, version: int | None) -> None:
    """Delete a calendar that no job names.

    \b
    Example:
      horae calendar delete holidays
    """
    call(server, lambda client: client.delete_calendar(name, version=version))
    click.echo(f"deleted calendar {cell(name)}", err=True)


def _table(page: Json) -> str:
    rows = [(one["name"], one["tz"], len(one["days"]), one["version"]) for one in page["items"]]
    text = table(("NAME", "TZ", "SPANS", "VERSION"), rows)
    return text if page["next_cursor"] is None else f"{text}\nmore: --cursor {page['next_cursor']} (or --all)"

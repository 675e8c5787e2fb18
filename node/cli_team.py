"""`horae team`: what teams may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from node.cli_call import call, server_option
from node.cli_draft import parse_json
from node.cli_output import Json, cell, fields, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client

LIST_DEFAULT = 50
SETTINGS = ("max_concurrent", "weight", "max_jobs", "notify", "keep_runs", "keep_days")


class Limit(click.ParamType[int | None]):
    """A number, or 'none' to lift the limit."""

    name = "N|none"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int | None:
        if value is None or value == "none":
            return None
        if not (str(value).isascii() and str(value).isdigit()):
            self.fail(f"{value!r} is not a number of 0 or more, nor none", parameter, context)
        return int(value)


class Days(click.ParamType[float | None]):
    """A number of days, or 'none'."""

    name = "DAYS|none"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float | None:
        return None if value is None or value == "none" else click.FLOAT.convert(value, parameter, context)


class JsonObject(click.ParamType[Any]):
    """A JSON object, or 'none'."""

    name = "JSON|none"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return None if value is None or value == "none" else parse_json("--notify", value)


@click.group()
def team() -> None:
    """What teams may use: quotas, weights, limits.

    \b
    Example:
      horae team set billing --max-concurrent 20
    """


@team.command("set")
@click.argument("team", metavar="TEAM")
@click.option("--max-concurrent", type=Limit(), help="Runs under way at once; none: no quota.")
@click.option("--weight", type=click.IntRange(1), help="Its share beside other teams, when runs have to wait.")
@click.option("--max-jobs", type=Limit(), help="Jobs that it may define; none: no limit.")
@click.option("--notify", type=JsonObject(), help="Whom its jobs tell, as in a job (docs/notifications.md).")
@click.option("--keep-runs", type=Limit(), help="Runs of a job that stay in its history; none: any number.")
@click.option("--keep-days", type=Days(), help="Days that runs stay in the history; none: as the cluster says.")
@server_option
@output_option
def set_team(server: str, output: str | None, team: str, **options: Any) -> None:
    """Change what a team may use. What is not named stays as it is.

    \b
    Examples:
      horae team set billing --max-concurrent 20 --weight 3
      horae team set billing --max-concurrent none --keep-days 30
      horae team set billing --notify '{"url": "https://alerts.example/billing", "on": ["dead"]}'
    """
    changes = {name: value for name, value in options.items() if name in _given()}
    if not changes:
        names = ", ".join("--" + name.replace("_", "-") for name in SETTINGS)
        raise click.UsageError(f"Say what to change: {names}.")

    async def work(client: Client) -> Json:
        before = await _settings(client, team)
        kept = {name: before[name] for name in SETTINGS if name in before}
        return await client.put_team(team, kept | changes, version=before["version"])

    show(call(server, work), output, _team_fields)


@team.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=LIST_DEFAULT, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on from an earlier answer's next_cursor.")
@click.option("--all", "every", is_flag=True, help="All pages.")
@server_option
@output_option
def list_teams(server: str, output: str | None, limit: int, cursor: str | None, every: bool) -> None:
    """List the teams that have settings, jobs or runs under way.

    \b
    Example:
      horae team list
    """

    async def work(client: Client) -> Json:
        if every:
            return {"items": [one async for one in client.all_teams()], "next_cursor": None}
        return await client.teams(limit=limit, cursor=cursor)

    show(call(server, work), output, _team_table)


@team.command("show")
@click.argument("team", metavar="TEAM")
@server_option
@output_option
def show_team(server: str, output: str | None, team: str) -> None:
    """Show what a team may use, and what it has.

    \b
    Example:
      horae team show billing
    """
    show(call(server, lambda client: client.team(team)), output, _team_fields)


@team.command()
@click.argument("team", metavar="TEAM")
@click.option("--version", type=click.IntRange(1), help="Only if the settings still have this version.")
@server_option
def reset(server: str, team: str, version: int | None) -> None:
    """Give a team the defaults again. Its jobs stay.

    \b
    Example:
      horae team reset billing
    """
    call(server, lambda client: client.delete_team(team, version=version))
    click.echo(f"team {cell(team)} has the defaults", err=True)


def _given() -> set[str]:
    """The options that were on the command line: a limit of none must be told from one that was left out."""
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    return {name for name in SETTINGS if context.get_parameter_source(name) is source}


async def _settings(client: Client, team: str) -> Json:
    from httpapi.client import Refused

    try:
        return await client.team(team)
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return {"version": 0}


def _team_table(page: Json) -> str:
    columns = ("TEAM", "MAX CONCURRENT", "CLAIMS", "WEIGHT", "MAX JOBS", "JOBS")
    names = ("team", "max_concurrent", "claims", "weight", "max_jobs", "jobs")
    text = table(columns, [[one[name] for name in names] for one in page["items"]])
    return text if page["next_cursor"] is None else f"{text}\nmore: --cursor {page['next_cursor']} (or --all)"


def _team_fields(one: Json) -> str:
    import msgspec

    shown = {
        name: msgspec.json.encode(value).decode() if isinstance(value, dict) else value for name, value in one.items()
    }
    return fields(list(shown.items()))

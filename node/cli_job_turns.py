"""`horae job pause` and `horae job resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from node.cli_call import call, find_job, server_option
from node.cli_output import Json, cell, output_option, show

if TYPE_CHECKING:
    from httpapi.client import Client

team_option = click.option("--team", help="Look for the name in this team only.")
_version_option = click.option("--version", type=click.IntRange(1), help="Only if the job still has this version.")
_key_option = click.option("--idempotency-key", help="Repeating the command with the same key does it no second time.")


@click.command()
@click.argument("job", metavar="NAME|ID")
@click.option("--reason", help="Why, for those who will wonder.")
@_version_option
@_key_option
@team_option
@server_option
@output_option
def pause(server: str, output: str | None, team: str | None, job: str, reason: str | None, **options: Any) -> None:
    """Stop a job's schedule: what has not started will not, and no tick runs until `horae job resume`.

    \b
    Example:
      horae job pause nightly-report --reason 'the warehouse is being moved'
    """

    async def work(client: Client) -> Json:
        found = await find_job(client, job, team)
        return await client.pause_job(found["job_id"], reason=reason, **_given(options))

    _show(call(server, work), output, "paused")


@click.command()
@click.argument("job", metavar="NAME|ID")
@click.option(
    "--from",
    "from_",
    type=click.Choice(["now", "paused_at"]),
    default="now",
    show_default=True,
    help="now: what was due meanwhile is skipped; paused_at: the job's misfire policy decides.",
)
@_version_option
@_key_option
@team_option
@server_option
@output_option
def resume(server: str, output: str | None, team: str | None, job: str, from_: Any, **options: Any) -> None:
    """Let a paused job go on.

    \b
    Examples:
      horae job resume nightly-report
      horae job resume nightly-report --from paused_at
    """

    async def work(client: Client) -> Json:
        found = await find_job(client, job, team)
        return await client.resume_job(found["job_id"], from_=from_, **_given(options))

    _show(call(server, work), output, "resumed")


def warn_if_not_effective(changed: Json) -> None:
    """A node that does not answer may still start what it holds, until its session is over."""
    if not changed["effective"]:
        text = "not effective yet: a node that does not answer may still start a run that it holds, for a few seconds"
        click.echo(text, err=True)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {"version": options["version"], "idempotency_key": options["idempotency_key"]}


def _show(changed: Json, output: str | None, done: str) -> None:
    show(changed, output, lambda job: f"{done} {cell(job['name'])}, next run {job['next_run_at'] or 'never'}")
    warn_if_not_effective(changed)

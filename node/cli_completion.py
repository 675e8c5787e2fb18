"""`horae run complete` and `horae run heartbeat`: what a script says that was started by a target's 202."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from node.cli_call import call, server_option
from node.cli_output import Json, output_option, show

if TYPE_CHECKING:
    from httpapi.client import Client

run_argument = click.argument("run_id", envvar="HORAE_RUN_ID")
token_option = click.option(
    "--fence-token",
    envvar="HORAE_FENCE_TOKEN",
    show_envvar=True,
    required=True,
    type=click.IntRange(0),
    help="The attempt's token, as the target was told it (Horae-Fence-Token).",
)


@click.command()
@run_argument
@token_option
@click.option(
    "--outcome",
    type=click.Choice(["succeeded", "failed"]),
    default="succeeded",
    show_default=True,
    help="How the attempt ended.",
)
@click.option("--detail", help="One line about it, for the history.")
@click.option("--log-file", type=click.File("rb"), help="What the attempt put out, its log; - reads standard input.")
@server_option
@output_option
def complete(
    server: str,
    output: str | None,
    run_id: str,
    fence_token: int,
    outcome: str,
    detail: str | None,
    log_file: IO[bytes] | None,
) -> None:
    """Report the end of an attempt whose target answered 202 with Horae-Completion: async.

    \b
    Examples:
      horae run complete 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6 --fence-token 1 --log-file work.log
      horae run complete 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6 --fence-token 1 --outcome failed --detail 'disk full'
    """
    log = None if log_file is None else log_file.read().decode("utf-8", "replace")

    async def work(client: Client) -> Json:
        return await client.complete_run(run_id, fence_token=fence_token, outcome=outcome, detail=detail, output=log)

    answer = call(server, work)
    show(answer, output, _completed)


@click.command()
@run_argument
@token_option
@click.option("--progress", help="How far it is, for people; shown with the run.")
@server_option
@output_option
def heartbeat(server: str, output: str | None, run_id: str, fence_token: int, progress: str | None) -> None:
    """Say that an attempt goes on whose target answered 202. Exits with 1 when it is over, and its work can stop.

    \b
    Example:
      horae run heartbeat 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6 --fence-token 1 --progress '40 of 100 files'
    """
    answer = call(server, lambda client: client.heartbeat_run(run_id, fence_token=fence_token, progress=progress))
    show(answer, output, _extended)


def _completed(one: Json) -> str:
    return f"run {one['run_id']} is {one['state']}"


def _extended(one: Json) -> str:
    until = one["lease_until"]
    return f"run {one['run_id']} goes on" + (f"; to be heard again before {until}" if until else "")

"""`horae run`: the history of a job, single runs, their logs, cancelling and redriving them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from node.cli_call import call, find_job, looks_like_an_id, server_option
from node.cli_completion import complete, heartbeat
from node.cli_output import Json, cell, fields, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client, LogEvent

LIST_DEFAULT = 20


@click.group()
def run() -> None:
    """List, show and cancel runs, and read their logs.

    \b
    Example:
      horae run list hello
    """


run.add_command(complete)
run.add_command(heartbeat)


@run.command("list")
@click.argument("job", metavar="[JOB]", required=False)
@click.option("--state", "states", multiple=True, help="Only runs in this state; may be repeated.")
@click.option("--from", "from_", help="Only runs due at or after this time (RFC 3339, with its offset).")
@click.option("--to", help="Only runs due before this time.")
@click.option("--limit", type=click.IntRange(1, 500), default=LIST_DEFAULT, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on from an earlier answer's next_cursor.")
@click.option("--team", help="Look for the job's name in this team only.")
@server_option
@output_option
def list_runs(
    server: str,
    output: str | None,
    job: str | None,
    team: str | None,
    states: tuple[str, ...],
    from_: str | None,
    to: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List the runs of a job (its name or id), newest first. Skipped ticks are runs too. Without a job: the dead runs
    of all, or of a --team.

    \b
    Examples:
      horae run list nightly-report
      horae run list nightly-report --state dead --state skipped --from 2026-11-01T00:00:00Z
      horae run list --state dead --team billing
    """
    if job is None and (states != ("dead",) or from_ is not None or to is not None):
        raise click.UsageError("Say whose runs; without a job only dead runs are listed, with --state dead alone.")

    async def work(client: Client) -> Json:
        from httpapi.client import Refused

        if job is None:
            return await client.dead_runs(team=team, limit=limit, cursor=cursor)

        async def runs_of(job_id: str) -> Json:
            return await client.runs(job_id, states=states, from_=from_, to=to, limit=limit, cursor=cursor)

        if looks_like_an_id(job):
            try:
                return await runs_of(job)  # a deleted job is found by its id only, and its history stays
            except Refused as refusal:
                if refusal.status != 404:
                    raise
        return await runs_of((await find_job(client, job, team))["job_id"])

    show(call(server, work), output, _run_table)


@run.command("show")
@click.argument("run_id")
@server_option
@output_option
def show_run(server: str, output: str | None, run_id: str) -> None:
    """Show a run and its attempts.

    \b
    Example:
      horae run show 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6
    """
    show(call(server, lambda client: client.run(run_id)), output, _run_fields)


@run.command()
@click.argument("run_id")
@click.option("--reason", help="Why, for the history.")
@server_option
@output_option
def cancel(server: str, output: str | None, run_id: str, reason: str | None) -> None:
    """Cancel a run that is not over: its attempt is killed, and none follows.

    \b
    Example:
      horae run cancel 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6 --reason 'wrong input'
    """
    show(call(server, lambda client: client.cancel_run(run_id, reason=reason)), output, _cancelled)


@run.command()
@click.argument("run_id")
@click.option("--attempt", type=click.IntRange(1), help="Which attempt. [default: the one running, or the last]")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, through retries, until the run is over.")
@server_option
def logs(server: str, run_id: str, attempt: int | None, follow: bool) -> None:
    """Print what an attempt put out, from whichever node has it. With --follow, a run that has not begun is waited for;
    what is not output (the next attempt, the end) is told on stderr.

    \b
    Examples:
      horae run logs 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6 --attempt 1
      horae run logs -f 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6
    """
    if not follow:
        click.echo(call(server, lambda client: client.run_log(run_id, attempt=attempt)), nl=False)
        return

    async def work(client: Client) -> None:
        async for event in client.follow_log(run_id, attempt=attempt):
            _print_event(event)

    call(server, work)


def _print_event(event: LogEvent) -> None:
    if event.piece is not None:
        if event.cut_bytes:
            click.echo(f"[{event.cut_bytes} bytes are not kept]", err=True)
        click.echo(event.piece.data, nl=False)
        return
    click.echo(_told(event.name, event.data), err=True)


def _told(name: str, data: Json) -> str:
    """What a person is told of a log besides the output."""
    if name == "attempt":
        return f"--- attempt {data.get('attempt')} on {cell(data.get('node'))}"
    if name == "end":
        reason = data.get("reason")
        return f"--- {cell(data.get('state'))}" + ("" if reason is None else f": {cell(reason)}")
    return f"--- {cell(data.get('detail'))}"


@run.command()
@click.argument("run_ids", metavar="[RUN_ID]...", nargs=-1)
@click.option("--job", help="All dead runs of this job (its name or id).")
@click.option("--team", help="All dead runs of this team; with --job, where to look for its name.")
@server_option
@output_option
def redrive(server: str, output: str | None, run_ids: tuple[str, ...], job: str | None, team: str | None) -> None:
    """Try dead runs anew, by the current definition of their job.

    \b
    Examples:
      horae run redrive 0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6
      horae run redrive --job nightly-report
      horae run redrive --team billing
    """
    if bool(run_ids) == (job is not None or team is not None):
        raise click.UsageError("Say which: either run ids, or --job, or --team.")

    async def work(client: Client) -> Json:
        if run_ids:
            for run_id in run_ids:
                await client.redrive_run(run_id)
            return {"redriven": len(run_ids), "refused": 0, "remaining": False}
        job_id = None if job is None else (await find_job(client, job, team))["job_id"]
        return await _redrive_all(client, job_id, team if job is None else None)

    show(call(server, work), output, _redriven)


async def _redrive_all(client: Client, job_id: str | None, team: str | None) -> Json:
    """Slice after slice, until nothing is left that could be redriven."""
    total = {"redriven": 0, "refused": 0, "remaining": True}
    while total["remaining"]:
        done = await client.redrive_dead(job_id=job_id, team=team)
        total["redriven"] += done["redriven"]
        total["refused"] = done["refused"]
        total["remaining"] = done["remaining"] and done["redriven"] > 0
    return total


def _redriven(done: Json) -> str:
    refused = f", {done['refused']} could not be" if done["refused"] else ""
    return f"{done['redriven']} redriven{refused}"


def _cancelled(one: Json) -> str:
    if one["effective"]:
        return f"run {one['run_id']} is {one['state']}"
    return f"run {one['run_id']} will be cancelled; {one['node']} has not confirmed yet that its attempt is gone"


def _run_table(page: Json) -> str:
    columns = ("DUE", "STATE", "KIND", "ATTEMPT", "NODE", "STARTED", "FINISHED", "REASON", "RUN ID")
    text = table(columns, [_run_row(one) for one in page["items"]])
    return text if page["next_cursor"] is None else f"{text}\nmore: --cursor {page['next_cursor']}"


def _run_row(one: Json) -> Sequence[Any]:
    reason = one["reason"] if one.get("count", 1) == 1 else f"{one['reason']} ({one['count']} ticks)"
    return (
        *(one["due_at"], one["state"], one["kind"], one["attempt"], one["node"]),
        *(one["started_at"], one["finished_at"], reason, one["run_id"]),
    )


def _run_fields(one: Json) -> str:
    head = fields([(name, value) for name, value in one.items() if name != "attempts"])
    if not one["attempts"]:
        return head
    columns = ("ATTEMPT", "OUTCOME", "NODE", "STATUS", "STARTED", "FINISHED", "DETAIL")
    rows = [
        (
            *(attempt["attempt"], attempt["outcome"], attempt["node"], attempt["status"]),
            *(attempt["started_at"], attempt["finished_at"], attempt.get("detail")),
        )
        for attempt in one["attempts"]
    ]
    return f"{head}\n\n{table(columns, rows)}"

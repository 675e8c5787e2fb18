"""`horae job backfill` and `horae backfill`: a job is run for ticks that are past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from node.cli_call import call, find_job, server_option
from node.cli_draft import parse_json
from node.cli_job_turns import team_option
from node.cli_output import Json, cell, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client

LIST_DEFAULT = 50


@click.command("backfill")
@click.argument("job", metavar="NAME|ID")
@click.option("--from", "from_", required=True, help="The first instant: 2026-11-01T00:00:00Z (inclusive).")
@click.option("--to", required=True, help="The end: 2026-11-08T00:00:00Z (exclusive); not to come.")
@click.option("--dry-run", is_flag=True, help="Only say how many ticks there are, the first and the last.")
@click.option("--args", help="JSON that takes the place of the job's args.")
@click.option("--overlap-policy", help="Of its runs. [default: allow if that is the job's, else queue_all]")
@click.option("--idempotency-key", help="Repeating the command with the same key starts no second backfill.")
@team_option
@server_option
@output_option
def backfill_job(
    server: str,
    output: str | None,
    team: str | None,
    job: str,
    from_: str,
    to: str,
    dry_run: bool,
    args: str | None,
    overlap_policy: str | None,
    idempotency_key: str | None,
) -> None:
    """Run a job for its ticks of a range that is past.

    \b
    Examples:
      horae job backfill nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run
      horae job backfill nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z
    """
    own_args = None if args is None else parse_json("--args", args)

    async def work(client: Client) -> Json:
        found = await find_job(client, job, team)
        if dry_run:
            return await client.plan_backfill(found["job_id"], from_=from_, to=to)
        return await client.backfill_job(
            found["job_id"],
            from_=from_,
            to=to,
            args=own_args,
            overlap_policy=overlap_policy,
            idempotency_key=idempotency_key,
        )

    show(call(server, work), output, _planned if dry_run else lambda one: f"backfill {one['backfill_id']} is running")


@click.group()
def backfill() -> None:
    """Backfills of jobs: list and cancel them (`horae job backfill` starts one).

    \b
    Example:
      horae backfill list nightly-report
    """


@backfill.command("list")
@click.argument("job", metavar="NAME|ID")
@click.option("--limit", type=click.IntRange(1, 500), default=LIST_DEFAULT, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on from an earlier answer's next_cursor.")
@team_option
@server_option
@output_option
def list_backfills(server: str, output: str | None, team: str | None, job: str, limit: int, cursor: str | None) -> None:
    """List a job's backfills, oldest first.

    \b
    Example:
      horae backfill list nightly-report
    """

    async def work(client: Client) -> Json:
        found = await find_job(client, job, team)
        return await client.backfills(found["job_id"], limit=limit, cursor=cursor)

    show(call(server, work), output, _table)


@backfill.command()
@click.argument("backfill_id", metavar="ID")
@click.option("--reason", help="Why, for those who will wonder.")
@server_option
@output_option
def cancel(server: str, output: str | None, backfill_id: str, reason: str | None) -> None:
    """Make no further runs of a backfill, and end those that are not over.

    \b
    Example:
      horae backfill cancel 01JD7Q0000000000000000000
    """
    answer = call(server, lambda client: client.cancel_backfill(backfill_id, reason=reason))
    show(answer, output, lambda one: f"backfill {cell(one['backfill_id'])} is {one['state']}")


def _planned(plan: Json) -> str:
    span = f", from {plan['first_at']} to {plan['last_at']}" if plan["count"] else ""
    return f"{plan['count']} ticks{span}"


def _table(page: Json) -> str:
    names = ("backfill_id", "state", "from", "to", "made", "outstanding", "next_at")
    text = table(
        [name.upper().replace("_", " ") for name in names], [[one[name] for name in names] for one in page["items"]]
    )
    return text if page["next_cursor"] is None else f"{text}\nmore: --cursor {page['next_cursor']}"

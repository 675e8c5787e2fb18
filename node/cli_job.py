"""`horae job`: create, list, show, run, delete; pause and resume are in cli_job_turns.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from node.cli_backfill import backfill_job
from node.cli_call import call, find_job, server_option
from node.cli_draft import build_draft, draft_options, parse_json
from node.cli_job_turns import pause, resume, team_option, warn_if_not_effective
from node.cli_output import Json, cell, fields, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client

LIST_DEFAULT = 50


@click.group()
def job() -> None:
    """Create, list, show, run, pause, resume, backfill and delete jobs.

    \b
    Example:
      horae job create --name hello --schedule '@every 5s' --noop
    """


@job.command()
@draft_options
@click.option("--idempotency-key", help="Repeating the command with the same key makes no second job.")
@server_option
@output_option
def create(server: str, output: str | None, idempotency_key: str | None, **options: Any) -> None:
    """Create a job from options, or from JSON with -f.

    \b
    Examples:
      horae job create --name hello --schedule '@every 5s' --noop
      horae job create --name report --schedule '0 2 * * *' --tz Europe/Berlin \\
          --url https://billing.example/report --header 'X-Env: prod' --args '{"kind": "daily"}'
      horae job create --name once --run-at 2030-01-01T09:00:00 --tz Asia/Tokyo --url https://a.example
      horae job create --name export --schedule @daily --tz UTC --image registry.example/export:4 \\
          --command 'export --full' --env REGION=eu --memory-mb 512 --cpu 0.5
      horae job create --name sync --schedule '@every 5m' --command 'rsync -a /srv/in /srv/out'
      horae job create -f job.json
    """
    draft = build_draft(options)

    async def work(client: Client) -> Json:
        return await client.create_job(draft, idempotency_key=idempotency_key)

    show(call(server, work), output, _created)


@job.command("list")
@click.option("--team", help="Only this team's jobs.")
@click.option("--name", "q", help="Only jobs of this name.")
@click.option("--limit", type=click.IntRange(1, 500), default=LIST_DEFAULT, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on from an earlier answer's next_cursor.")
@click.option("--all", "every", is_flag=True, help="All pages.")
@server_option
@output_option
def list_jobs(
    server: str, output: str | None, team: str | None, q: str | None, limit: int, cursor: str | None, every: bool
) -> None:
    """List jobs.

    \b
    Examples:
      horae job list
      horae job list --team billing -o json | jq -r '.items[].name'
    """

    async def work(client: Client) -> Json:
        if every:
            return {"items": [one async for one in client.all_jobs(team=team, q=q)], "next_cursor": None}
        return await client.jobs(team=team, q=q, limit=limit, cursor=cursor)

    show(call(server, work), output, _job_table)


@job.command("show")
@click.argument("job", metavar="NAME|ID")
@team_option
@server_option
@output_option
def show_job(server: str, output: str | None, team: str | None, job: str) -> None:
    """Show a job: its definition, its next run and its history added up.

    \b
    Example:
      horae job show nightly-report --team billing
    """
    show(call(server, lambda client: find_job(client, job, team)), output, _job_fields)


@job.command("run")
@click.argument("job", metavar="NAME|ID")
@click.option("--args", help="JSON that takes the place of the job's args.")
@click.option("--overlap-policy", help="Takes the place of the job's for this run.")
@click.option("--idempotency-key", help="Repeating the command with the same key makes no second run.")
@team_option
@server_option
@output_option
def run_job(
    server: str,
    output: str | None,
    team: str | None,
    job: str,
    args: str | None,
    overlap_policy: str | None,
    idempotency_key: str | None,
) -> None:
    """Run a job now, besides its schedule.

    \b
    Examples:
      horae job run nightly-report --args '{"kind": "full"}'
      horae job run nightly-report --overlap-policy allow
    """
    replacement = {} if args is None else {"args": parse_json("--args", args)}
    if overlap_policy is not None:
        replacement["overlap_policy"] = overlap_policy

    async def work(client: Client) -> Json:
        found = await find_job(client, job, team)
        return await client.run_job(found["job_id"], idempotency_key=idempotency_key, **replacement)

    show(call(server, work), output, lambda run: f"run {run['run_id']} is {run['state']}")


@job.command()
@click.argument("job", metavar="NAME|ID")
@click.option("--version", type=click.IntRange(1), help="Only if the job still has this version.")
@team_option
@server_option
def delete(server: str, team: str | None, job: str, version: int | None) -> None:
    """Delete a job. Its history stays.

    \b
    Example:
      horae job delete nightly-report
    """

    async def work(client: Client) -> tuple[Json, Json]:
        found = await find_job(client, job, team)
        return found, await client.delete_job(found["job_id"], version=version)

    found, deleted = call(server, work)
    click.echo(f"deleted {cell(found['name'])} ({found['job_id']})", err=True)
    warn_if_not_effective(deleted)


job.add_command(pause)
job.add_command(resume)
job.add_command(backfill_job)


def _created(answer: Json) -> str:
    return f"job {answer['job_id']}, next run {answer['next_run_at'] or 'never'}"


def _job_table(page: Json) -> str:
    columns = ("NAME", "TEAM", "SCHEDULE", "TZ", "TARGET", "STATE", "NEXT RUN", "LAST", "JOB ID")
    text = table(columns, [_job_row(one) for one in page["items"]])
    return text if page["next_cursor"] is None else f"{text}\nmore: --cursor {page['next_cursor']} (or --all)"


def _job_row(one: Json) -> Sequence[Any]:
    when = one["schedule"] if one["schedule"] is not None else f"once {one['run_at']}"
    return (
        *(one["name"], one["team"], when, one["tz"], _target(one["target"])),
        *(one["state"], one["next_run_at"], one["stats"]["last_outcome"], one["job_id"]),
    )


def _target(target: Json) -> str:
    return f"{target['method']} {target['url']}" if target["type"] == "http" else str(target["type"])


def _job_fields(one: Json) -> str:
    import msgspec

    one = dict(one)
    stats = one.pop("stats")
    shown = [(name, value) for name, value in one.items() if value is not None or name == "next_run_at"]
    shown += list(_history(stats))
    return fields(
        [
            (name, msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value)
            for name, value in shown
        ]
    )


def _history(stats: Json) -> Iterator[tuple[str, Any]]:
    """What has become of the job's runs, without what has not happened yet."""
    yield "runs", ", ".join(f"{count} {outcome}" for outcome, count in stats["runs"].items() if count) or "none yet"
    for name in ("last_run", "last_success", "last_failure"):
        if stats[name] is not None:
            yield name, f"{stats[name]['at']} {stats[name]['run_id']}"
    for name in ("consecutive_failures", "attempts_retried", "ticks_skipped"):
        if stats[name]:
            yield name, stats[name]

"""The options of `horae job create`, and the body that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, TypeVar

import click

from node.cli_draft_target import TARGET_OPTIONS, build_target
from node.cli_tags import parse_tags

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-f", "--file", type=click.File("rb"), help="The body as JSON; - reads standard input."),
    click.option("--name", help="Unique in its team."),
    click.option("--team", help="Whose job it is. [default: default]"),
    click.option("--schedule", multiple=True, help="A cron expression, @daily, @every 90s, …; may be repeated."),
    click.option("--run-at", help="Run once, then: 2030-01-01T09:00:00 (read in --tz), or with an offset."),
    click.option("--tz", help="An IANA time zone, such as Europe/Berlin. [default: UTC]"),
    *TARGET_OPTIONS,
    click.option("--args", help="JSON that is handed to the target."),
    click.option("--timeout", type=float, help="Seconds until an attempt is killed and has failed. [default: 60]"),
    click.option("--max-retries", type=int, help="Attempts after a failed first one. [default: 3]"),
    click.option("--priority", help="0 to 9 (9 first), or low, normal, high. [default: 5]"),
    click.option("--run-on", multiple=True, metavar="TAG=VALUE", help="Only on nodes with this tag; may be repeated."),
    click.option(
        "--overlap-policy",
        help="When the run before is not over: allow, skip, queue_one, queue_all or replace. [default: allow]",
    ),
    click.option("--max-concurrent", type=int, help="Runs that may be active at once. [default: see --overlap-policy]"),
    click.option("--start-deadline", type=float, help="Seconds in which a run must begin. [default: any]"),
    click.option("--run-timeout", type=float, help="Seconds for a run with all its retries. [default: any]"),
    click.option("--misfire-policy", help="For ticks missed in an outage: skip, run_once or catch_up."),
    click.option("--notify-url", help="Tell this URL what becomes of the runs (docs/notifications.md)."),
    click.option(
        "--notify-on",
        multiple=True,
        help="With --notify-url: dead, failed, recovered, late or skipped; may be repeated. [default: dead, recovered]",
    ),
    click.option("--pause-on-failure", type=int, help="Pause it after so many dead runs in a row. [default: never]"),
    click.option("--after-completion", help="When its last run is over: keep the job, or delete it. [default: keep]"),
    click.option("--keep-runs", type=int, help="Runs that stay in the history at most. [default: as the team says]"),
    click.option("--keep-days", type=float, help="Days that runs stay in it. [default: as team or cluster say]"),
    click.option("--misfire-window", type=float, help="Seconds; missed ticks that are older never run."),
    click.option("--exclude-calendar", multiple=True, help="A calendar on whose days no tick runs; may be repeated."),
    click.option("--max-runs", type=int, help="How many ticks become runs, then no more. [default: no limit]"),
)
_SAME_NAME = (
    *("name", "team", "run_at", "tz", "max_retries"),
    *("overlap_policy", "max_concurrent", "misfire_policy", "max_runs"),
    *("pause_on_failure", "after_completion", "keep_runs", "keep_days"),
)


def draft_options(command: Command) -> Command:
    """Give a command all options of a job's draft."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_draft(options: dict[str, Any]) -> dict[str, Any]:
    """The body of POST /v1/jobs. Checks what only the command line can get wrong; the server judges the rest."""
    file = options.pop("file")
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != ()}
    if file is None:
        return _from_options(given)
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.UsageError(f"-f holds the whole job; leave out {names}.")
    return _from_file(file)


def _from_file(file: IO[bytes]) -> dict[str, Any]:
    body = parse_json("-f", file.read())
    if not isinstance(body, dict):
        raise click.UsageError("-f: a JSON object is expected, with the fields of POST /v1/jobs.")
    return body


def _from_options(given: dict[str, Any]) -> dict[str, Any]:
    if "name" not in given:
        raise click.UsageError("Say what the job is called with --name (or give it whole with -f).")
    if ("schedule" in given) == ("run_at" in given):
        raise click.UsageError("Give either --schedule or --run-at.")
    draft = {name: given[name] for name in _SAME_NAME if name in given}
    draft["target"] = build_target(given)
    if "schedule" in given:
        draft["schedule"] = given["schedule"][0] if len(given["schedule"]) == 1 else list(given["schedule"])
    if "run_on" in given:
        draft["run_on"] = parse_tags("--run-on", given["run_on"])
    if "args" in given:
        draft["args"] = parse_json("--args", given["args"])
    if "timeout" in given:
        draft["timeout_s"] = given["timeout"]
    for name in ("misfire_window", "start_deadline", "run_timeout"):
        if name in given:
            draft[f"{name}_s"] = given[name]
    if "exclude_calendar" in given:
        draft["exclude_calendars"] = list(given["exclude_calendar"])
    if "priority" in given:
        draft["priority"] = int(given["priority"]) if given["priority"].isdecimal() else given["priority"]
    if "notify_url" in given:
        draft["notify"] = {"url": given["notify_url"]} | ({"on": given["notify_on"]} if "notify_on" in given else {})
    elif "notify_on" in given:
        raise click.UsageError("--notify-on belongs to --notify-url.")
    return draft


def parse_json(option: str, text: str | bytes) -> Any:
    """JSON from the command line. Raises UsageError naming the option."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise click.UsageError(f"{option}: this is not JSON: {fault}") from None

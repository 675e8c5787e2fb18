"""The short text of transcripts: a command line becomes a Command, replies, events and records become a line.

    open_session node=n1 incarnation=1 slots=2 ahead=1
    put_job A team=t first_due_ms=5000          (a job id, then fields of the Job, or of PutJob)
    fire n1 A@5000:5000>6000                    (owner, then JOB@EXPECTED:STEP,…>NEXT; epoch= and version= for all
    items) finish A@5000 token=1 outcome=succeeded     (A@5000 is the run of job A due at 5000, A@5000-mx the manual
    one)

A STEP of a fire is DUE, DUE/RELEASE (with a ! behind it: to catch up), or FROM-UNTIL*COUNT!reason for a range that is
skipped.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import msgspec

from statemachine import commands as c
from statemachine.keys import parse_run_id
from statemachine.policy_records import Calendar
from statemachine.records import AttemptOutcome, Job, NoopTarget, Notify, Team

COMMANDS = {command.__struct_config__.tag: command for command in c.Command.__subclasses__()}
RUN_ID = re.compile(r"\b([0-9a-f]{12})-(\w+(-\w+)?)")
SHORT_RUN_ID = re.compile(r"(\w+)@(\d+)(-\w+)?")


# --- reading


def parse_command(line: str, now_ms: int) -> c.Command:
    tag, *words = line.split()
    names = [word for word in words if "=" not in word]
    fields = {key: _value(text) for key, text in (word.split("=", 1) for word in words if "=" in word)}
    return _PARSERS.get(tag, _plain)(tag, names, {"now_ms": now_ms} | fields)


def long_run_id(short: str) -> str:
    """The run id that A@5000 stands for; a text that is not of this shape stays."""
    match = SHORT_RUN_ID.fullmatch(short)
    if match is None:
        return short
    job_id, due_ms, suffix = match.groups()
    return f"{int(due_ms):012x}-{job_id}{suffix or ''}"


def _value(text: str) -> Any:
    if text in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text]
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _plain(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    """A command whose first word, if any, is the run or job that it is about."""
    kind = COMMANDS[tag]
    for name in names:
        about = next(field for field in ("backfill_id", "name", "run_id", "job_id") if field in kind.__struct_fields__)
        fields[about] = long_run_id(name)
    return kind(**(_DEFAULTS.get(tag, {}) | fields))


def _finish(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    now_ms = fields["now_ms"]
    fields["outcome"] = AttemptOutcome(fields["outcome"])
    return _plain(tag, names, {"started_ms": now_ms, "finished_ms": now_ms} | fields)


def _start(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    return _plain(tag, names, {"started_ms": fields["now_ms"]} | fields)


def _complete(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    return _plain(tag, names, fields | {"outcome": AttemptOutcome(fields["outcome"])})


def _put_job(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    if "skip" in fields:
        fields["skip"] = _fire_skip(fields["skip"])
    own_names = ("now_ms", "idempotency_key", "expected_version", "skip")
    own = {name: fields.pop(name) for name in own_names if name in fields}
    if "exclude_calendars" in fields:
        fields["exclude_calendars"] = tuple(fields["exclude_calendars"].split(","))
    digest = str(fields.pop("body", "")).encode()
    if "notify" in fields:
        fields["notify"] = Notify(on=tuple(fields["notify"].split(",")), url="http://u")
    usual = {"name": names[0].lower(), "team": "t", "created_ms": own["now_ms"], "updated_ms": own["now_ms"]}
    job = Job(job_id=names[0], target=NoopTarget(), **(usual | fields))
    return c.PutJob(job=job, body_digest=digest, **({"expected_version": job.version - 1} | own))


def _put_team(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    own = {name: fields.pop(name) for name in ("now_ms", "expected_version") if name in fields}
    return c.PutTeam(team=Team(team=names[0], **fields), **own)


def _delete_team(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    return c.DeleteTeam(team=names[0], **fields)


def _fire(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    common = {"version": fields.get("version", 1), "epoch": fields.get("epoch", 1)}
    return c.Fire(now_ms=fields["now_ms"], node=names[0], items=tuple(_item(name, common) for name in names[1:]))


def _turn(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    """pause_job or resume_job: `skip` as a step of a fire, `body` as of put_job."""
    if "skip" in fields:
        fields["skip"] = _fire_skip(fields["skip"])
    if "body" in fields:
        fields["body_digest"] = str(fields.pop("body")).encode()
    return _plain(tag, names, fields)


def _put_calendar(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    """`put_calendar x days=3,5-9`"""
    own = {name: fields.pop(name) for name in ("now_ms", "expected_version") if name in fields}
    days = [str(text).partition("-") for text in str(fields.pop("days", "")).split(",") if text]
    spans = tuple((int(first), int(last or first)) for first, _, last in days)
    return c.PutCalendar(calendar=Calendar(name=names[0], spans=spans, **fields), **own)


def _step_backfill(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    """`step_backfill b … due_ms=5000,6000`; without `expected_ms` it has no tick left."""
    due_ms = tuple(int(text) for text in str(fields.pop("due_ms", "")).split(",") if text)
    return _plain(tag, names, {"expected_ms": None, "due_ms": due_ms} | fields)


def _item(text: str, common: dict[str, int]) -> c.FireItem:
    match = re.fullmatch(r"(\w+)@(\d+):(.*)>(\w+)", text)
    assert match, text
    job_id, expected_ms, steps, next_ms = match.groups()
    skips = [step for step in steps.split(",") if "!" in step and not step.endswith("!")]
    runs = [step for step in steps.split(",") if step and step not in skips]
    return c.FireItem(
        job_id=job_id,
        expected_ms=int(expected_ms),
        runs=tuple(_fire_run(step) for step in runs),
        skips=tuple(_fire_skip(step) for step in skips),
        next_ms=_value(next_ms),
        **common,
    )


def _fire_run(step: str) -> c.FireRun:
    due_ms, _, release_ms = step.removesuffix("!").partition("/")
    return c.FireRun(due_ms=int(due_ms), release_ms=int(release_ms or due_ms), catch_up=step.endswith("!"))


def _fire_skip(step: str) -> c.FireSkip:
    match = re.fullmatch(r"(\d+)-(\d+)\*(\d+)!(.+)", step)
    assert match, step
    from_ms, until_ms, count, reason = match.groups()
    return c.FireSkip(from_ms=int(from_ms), until_ms=int(until_ms), count=int(count), reason=reason)


def _assign_buckets(tag: str, names: list[str], fields: dict[str, Any]) -> c.Command:
    """`assign_buckets 0-1023/0=n1`: from bucket to bucket, at this expected epoch, to this node (or `none`)."""
    moves = []
    for key, node in fields.items():
        match = re.fullmatch(r"(\d+)(?:-(\d+))?/(\d+)", key)
        if match:
            first, last, epoch = int(match[1]), int(match[2] or match[1]), int(match[3])
            moves += [c.BucketMove(bucket=b, expected_epoch=epoch, node=node) for b in range(first, last + 1)]
    return c.AssignBuckets(now_ms=fields["now_ms"], moves=tuple(moves))


_DEFAULTS: dict[str, dict[str, Any]] = {
    "open_session": {"slots": 2, "ahead": 2, "http": "h", "raft": "r", "version": "v", "tzdata": "z"},
    "expire_session": {"renewal": 0},
}
_PARSERS = {
    "put_job": _put_job,
    "put_team": _put_team,
    "delete_team": _delete_team,
    "put_calendar": _put_calendar,
    "start_backfill": _turn,
    "step_backfill": _step_backfill,
    "pause_job": _turn,
    "resume_job": _turn,
    "fire": _fire,
    "finish": _finish,
    "start": _start,
    "detach": _start,
    "complete": _complete,
    "assign_buckets": _assign_buckets,
}


# --- writing


def format_reply(reply: c.Reply) -> str:
    return " ".join([reply.code, *_fields(reply, skip=("code",))])


def format_event(topic: str, event: c.AnyEvent) -> str:
    return " ".join(
        [
            f"{topic}:",
            str(event.__struct_config__.tag),
            *_fields(event, skip=("job_version", "attempts_max", "wall_ms")),
        ]
    )


def format_record(record: msgspec.Struct, *names: str) -> str:
    """The named fields of a record, or all that differ from their defaults."""
    fields = _fields(record, skip=())
    return " ".join(field for field in fields if not names or field.split("=")[0] in names)


def _fields(value: msgspec.Struct, skip: tuple[str, ...]) -> list[str]:
    shown = []
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        if content not in (field.default, {}) and field.name not in skip:
            shown.append(f"{field.name}={format_value(content)}")
    return shown


def format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_grouped([format_value(item) for item in value])) + "]"
    if isinstance(value, msgspec.Struct):
        return "{" + format_record(value) + "}"
    if value is None:
        return "none"
    return RUN_ID.sub(_short_run_id, str(value))


def _grouped(texts: list[str]) -> list[str]:
    """Equal neighbours once, with how many there are."""
    counted = [(text, len(list(group))) for text, group in groupby(texts)]
    return [text if count == 1 else f"{text}*{count}" for text, count in counted]


def _short_run_id(match: re.Match[str]) -> str:
    key = parse_run_id(match[0])
    if key is None:
        return match[0]
    suffix = match[0].partition(key.job_id)[2]
    return f"{key.job_id}@{key.due_ms}{suffix}"

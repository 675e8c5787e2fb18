"""Lanes: what a waiting run needs of a session, as the beginning of its place in `waiting`.

A lane is a class (9 first) and a *need*: the kind of the run's target, the tags of `run_on`, and the group of slow
targets that it belongs to, if any. Runs of one need stand together, so one that no session has room for is passed over
by one seek, however many runs of it wait.

    class byte, kind and flags byte, [8 bytes: digest of the tags], [1 byte: group of slow targets]
    then team \\0 release_ms run_id (keys.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from statemachine.keys import KINDS, LANE_AGED, LANE_SLOW, LANE_TAGGED, TAGS_BYTES
from statemachine.records import Job, Run
from statemachine.targets import slow_bucket, target_name
from statemachine.work import Work

_CODES = {kind: code for code, kind in enumerate(KINDS)}
CLASSES = 10
_PLAIN = tuple(tuple(bytes((class_, code)) for code in range(len(KINDS))) for class_ in range(CLASSES))


def lane_of(work: Work, job: Job) -> bytes:
    """The lane in which a run of the job begins to wait."""
    kind = _CODES[job.target.__struct_config__.tag]  # type: ignore[index]
    lane = _PLAIN[9 - job.priority][kind]
    if job.run_on:
        lane = bytes((lane[0], lane[1] | LANE_TAGGED)) + _digest(job.run_on)
    return lane if kind == 0 else _in_its_group(work, job, lane)


def lane_now(work: Work, run: Run) -> bytes:
    """The lane in which a waiting run belongs by now: its target may have become slow, or have come right."""
    job = work.job(run.job_id)
    if job is None or job.version != run.job_version:
        return run.lane
    lane = run.lane
    if lane[1] & LANE_SLOW:
        lane = bytes((lane[0], lane[1] & ~LANE_SLOW)) + lane[2:-1]
    return _in_its_group(work, job, lane)


def waiting_fields(work: Work, run: Run) -> dict[str, Any]:
    """The fields of a run that begins to wait (again): its lane, and the tags that it stands for. A run whose
    definition is gone goes on as that wanted it."""
    job = work.job(run.job_id)
    if job is not None and job.version == run.job_version:
        return {"lane": lane_of(work, job), "run_on": job.run_on}
    if not run.lane:
        return {"lane": _PLAIN[9 - run.priority][0]}
    return {"lane": bytes((9 - run.priority, run.lane[1] & ~LANE_AGED)) + run.lane[2:]}


def _in_its_group(work: Work, job: Job, lane: bytes) -> bytes:
    """The lane of those among which the target is, if it is slow."""
    if not work.targets.has_any():
        return lane
    name = target_name(job.target)
    if name is None or not work.targets.is_slow(name):
        return lane
    return bytes((lane[0], lane[1] | LANE_SLOW)) + lane[2:] + bytes((slow_bucket(name),))


def _digest(tags: Mapping[str, str]) -> bytes:
    text = "\0".join(f"{name}={value}" for name, value in sorted(tags.items()))
    return blake2b(text.encode(), digest_size=TAGS_BYTES).digest()

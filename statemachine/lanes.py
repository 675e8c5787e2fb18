"""Lanes: what a waiting run needs of a session, as the beginning of its place in `waiting`.

A lane is a class (9 first) and a *need*: the kind of the run's target, and the tags of `run_on`. Runs of one need stand
together, so one that no session has room for is passed over by one seek, however many runs of it wait.

    class byte, kind and flags byte, [8 bytes: digest of the tags]     then team \\0 release_ms run_id (keys.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from statemachine.keys import KINDS, LANE_TAGGED, TAGS_BYTES
from statemachine.records import Job, Run
from statemachine.work import Work

_CODES = {kind: code for code, kind in enumerate(KINDS)}
CLASSES = 10
_PLAIN = tuple(tuple(bytes((class_, code)) for code in range(len(KINDS))) for class_ in range(CLASSES))


def lane_of(job: Job) -> bytes:
    """The lane in which a run of the job waits."""
    kind = _CODES[job.target.__struct_config__.tag]  # type: ignore[index]
    if not job.run_on:
        return _PLAIN[9 - job.priority][kind]
    return bytes((9 - job.priority, kind | LANE_TAGGED)) + _digest(job.run_on)


def waiting_fields(work: Work, run: Run) -> dict[str, Any]:
    """The fields of a run that begins to wait (again): its lane, and the tags that it stands for. A run whose
    definition is gone goes on as that wanted it."""
    job = work.job(run.job_id)
    if job is not None and job.version == run.job_version:
        return {"lane": lane_of(job), "run_on": job.run_on}
    need = run.lane[1:] or _PLAIN[0][0][1:]
    return {"lane": bytes((9 - run.priority,)) + need}


def _digest(tags: Mapping[str, str]) -> bytes:
    text = "\0".join(f"{name}={value}" for name, value in sorted(tags.items()))
    return blake2b(text.encode(), digest_size=TAGS_BYTES).digest()

"""A claim with what its attempt needs: the definition that made the run, and the assignment for the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from executor.interface import Assignment
from node.timers import ClaimKey
from node.views import DefinitionView
from statemachine.commands import RunClaimed
from statemachine.keys import run_id_of
from statemachine.records import Job

TIMEOUT_S_MIN = 0.001
"""Of an attempt whose run should be over: it times out at once."""
DEFINITIONS_KEPT_MAX = 50_000
INSTANTS_KEPT_MAX = 1_024
"""Runs of a burst share their due time, and its text."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One version of a job, its target as plain values."""

    job: Job
    target: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.target["type"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A claim that can be started."""

    claim: RunClaimed
    definition: Definition
    args: bytes
    api_url: str
    """Where targets reach the API of this node."""

    @property
    def key(self) -> ClaimKey:
        return ClaimKey(self.claim.run_id, self.claim.token)

    def assignment(self, started_ms: int) -> Assignment:
        """What the executor gets. The attempt has its own timeout, or what is left of the run's if that is less."""
        job, end_by_ms = self.definition.job, self.claim.end_by_ms
        left_s = job.timeout_s if end_by_ms is None else max((end_by_ms - started_ms) / 1000, TIMEOUT_S_MIN)
        return Assignment(
            run_id=self.claim.run_id,
            job_id=self.claim.job_id,
            attempt=self.claim.attempt,
            fence_token=self.claim.token,
            due_at=rfc3339(self.claim.due_ms),
            target=self.definition.target,
            args=self.args,
            timeout_s=min(job.timeout_s, left_s),
            started_ms=started_ms,
            callback_url=f"{self.api_url}/v1/runs/{self.claim.run_id}",
        )


class WorkSource:
    """Turns claims into work. Keeps the definitions of jobs that run often; the half made longest ago goes first."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url
        self._definitions: dict[tuple[str, int], Definition] = {}

    def work_of(self, view: DefinitionView, claim: RunClaimed) -> Work | None:
        """None when the definition is not kept any more: the job was changed very often since."""
        definition = self._definition(view, claim.job_id, claim.job_version)
        if definition is None:
            return None
        args = _own_args(view, claim) or definition.job.args
        return Work(claim=claim, definition=definition, args=args, api_url=self._api_url)

    def _definition(self, view: DefinitionView, job_id: str, version: int) -> Definition | None:
        kept = self._definitions.get((job_id, version))
        if kept is not None:
            return kept
        job = view.job_version(job_id, version)
        if job is None:
            return None
        if len(self._definitions) >= DEFINITIONS_KEPT_MAX:
            for old in list(self._definitions)[: DEFINITIONS_KEPT_MAX // 2]:
                del self._definitions[old]
        definition = Definition(job=job, target=msgspec.to_builtins(job.target))
        self._definitions[job_id, version] = definition
        return definition


def _own_args(view: DefinitionView, claim: RunClaimed) -> bytes | None:
    """Only runs that somebody asked for can have args of their own: the usual run costs no read."""
    if claim.run_id == run_id_of(claim.job_id, claim.due_ms):
        return None
    run = view.run(claim.run_id)
    return None if run is None else run.args


@lru_cache(maxsize=INSTANTS_KEPT_MAX)
def rfc3339(time_ms: int) -> str:
    """An instant as the API writes it: UTC, with milliseconds."""
    instant = _EPOCH + timedelta(milliseconds=time_ms)
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"

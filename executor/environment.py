"""What a process is told in its environment: Horae's own variables beside those that the job gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from executor.interface import Assignment

OWN_PREFIX = "HORAE_"
VARIABLES_MAX = 128
NAME_CHARS_MAX = 128
VALUE_CHARS_MAX = 8192
SECRET_CHARS_MIN = 4
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_CHARS_MAX - 1}}}")


def own_variables(assignment: Assignment) -> dict[str, str]:
    """What a target deduplicates by, as the http target has it in its headers, and the args as JSON."""
    return {
        "HORAE_RUN_ID": assignment.run_id,
        "HORAE_JOB_ID": assignment.job_id,
        "HORAE_ATTEMPT": str(assignment.attempt),
        "HORAE_DUE_AT": assignment.due_at,
        "HORAE_FENCE_TOKEN": str(assignment.fence_token),
        "HORAE_ARGS": assignment.args.decode(),
    }


def variable_fault(name: str, value: Any) -> str | None:
    """What is wrong with one of a job's variables; None when it can be set."""
    if _NAME.fullmatch(name) is None:
        return f"is no name of a variable: letters, digits, _ . and - (at most {NAME_CHARS_MAX}), no digit first"
    if name.startswith(OWN_PREFIX):
        return f"names that begin with {OWN_PREFIX} are Horae's own; choose another"
    if not isinstance(value, str) or "\0" in value:
        return "must be text without NUL bytes"
    return f"is longer than {VALUE_CHARS_MAX} characters" if len(value) > VALUE_CHARS_MAX else None


def with_own_variables(assignment: Assignment, given: Mapping[str, Any]) -> dict[str, str]:
    """The job's variables and Horae's. Raises ValueError for one that cannot be set."""
    for name, value in given.items():
        fault = variable_fault(name, value)
        if fault is not None:
            raise ValueError(f"env.{name} {fault}")
    return {**given, **own_variables(assignment)}


def without_values(text: str, given: Mapping[str, str]) -> str:
    """`text` with the values of a job's variables struck out: what an engine says about a process may repeat what it
    was given, and some of that is secret. What is shorter than SECRET_CHARS_MIN is left: it would be everywhere."""
    secrets = (value for value in given.values() if len(value) >= SECRET_CHARS_MIN)
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    return text

"""How a container ended, in words: its exit code, its memory, what the engine had against it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from executor.container_plan import ContainerPlan
from executor.environment import without_values
from executor.interface import Outcome, OutcomeKind
from executor.text import one_line

_RUNTIME_NOISE = ("unable to start container process: ", "OCI runtime create failed: ")
"""What the engine wraps around the reason that a program cannot be started; the reason comes last."""


def outcome_of(plan: ContainerPlan, code: int, state: Mapping[str, Any]) -> Outcome:
    """Of a container that ended by itself."""
    if code == 0:
        return Outcome(kind=OutcomeKind.SUCCEEDED, status=0)
    return Outcome(kind=OutcomeKind.FAILED, status=code, detail=_describe_code(plan, code, state))


def failure(plan: ContainerPlan, message: str) -> Outcome:
    """Of an attempt that the engine refused or lost. What it repeats of the environment is struck out."""
    for noise in _RUNTIME_NOISE:
        message = message.rpartition(noise)[2]
    text = without_values(message.removesuffix(": unknown"), plan.given)
    return Outcome(kind=OutcomeKind.FAILED, detail=one_line(text))


def _describe_code(plan: ContainerPlan, code: int, state: Mapping[str, Any]) -> str:
    if state.get("OOMKilled"):
        limit = "the node's memory" if plan.memory_mb is None else f"memory_mb ({plan.memory_mb})"
        return f"killed: it needed more than {limit}"
    name = signal_name(code)
    return f"exit code {code}" + (f" ({name})" if name else "")


def signal_name(code: int) -> str | None:
    """The signal that an exit code above 128 usually stands for."""
    try:
        return signal.Signals(code - 128).name if code > 128 else None
    except ValueError:
        return None

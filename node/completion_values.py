"""What targets say of attempts that they complete themselves. Users take it from interface.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CompletionOutcome = Literal["succeeded", "failed"]
COMPLETION_TEXT_LENGTH_MAX = 1000
"""Of the detail of a completion and the progress of a heartbeat; longer ones are cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What a target says of the end of an attempt. `output` becomes the attempt's log, which THIS node keeps."""

    outcome: CompletionOutcome
    detail: str | None = None
    output: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """Until when the target has to be heard again, or the attempt ends timed_out. None: the node that called it has not
    told the cluster of its 202 yet; its lease begins then."""

    until_ms: int | None

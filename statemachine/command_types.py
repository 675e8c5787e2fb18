"""What every command and reply is made of: their bases, and the kinds of fields, with the limits of decoding."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from statemachine.limits import (
    ADDRESS_LENGTH_MAX,
    DETAIL_LENGTH_MAX,
    INT_MAX,
    JOB_ID_LENGTH_MAX,
    LABEL_LENGTH_MAX,
    NODE_LENGTH_MAX,
    RUN_ID_LENGTH_MAX,
    SLOTS_MAX,
    TIME_MS_MAX,
    WORD_LENGTH_MAX,
)

TimeMs = Annotated[int, Meta(ge=0, le=TIME_MS_MAX)]
Count = Annotated[int, Meta(ge=0, le=INT_MAX)]
Slots = Annotated[int, Meta(ge=0, le=SLOTS_MAX)]
JobId = Annotated[str, Meta(min_length=1, max_length=JOB_ID_LENGTH_MAX)]
RunId = Annotated[str, Meta(min_length=1, max_length=RUN_ID_LENGTH_MAX)]
NodeId = Annotated[str, Meta(min_length=1, max_length=NODE_LENGTH_MAX, pattern=r"\A[0-9A-Za-z._-]+\Z")]
Address = Annotated[str, Meta(max_length=ADDRESS_LENGTH_MAX)]
Tag = Annotated[str, Meta(max_length=LABEL_LENGTH_MAX)]
Word = Annotated[str, Meta(max_length=WORD_LENGTH_MAX)]
Reason = Annotated[str, Meta(max_length=DETAIL_LENGTH_MAX)]


class Command(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of the commands: `now_ms` is the proposer's wall clock.

    Unknown fields are refused, at every depth: an older replica must not apply half of what a newer one meant."""

    now_ms: TimeMs


class Reply(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """`code` is 'ok' or the name of a refusal (see REFUSALS); `detail` says it for a person."""

    code: str = "ok"
    detail: str | None = None

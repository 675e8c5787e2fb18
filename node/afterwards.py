"""Looking at what a change has come to, once it stands in the log."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from node.interface import HoraeError, OutcomeUnknown

Seen = TypeVar("Seen")


async def seen_afterwards(done: str, look: Awaitable[Seen]) -> Seen:
    """Look at what a change has come to. It stands in the log, so a look that fails must not say that nothing was
    done."""
    try:
        return await look
    except HoraeError as error:
        if not error.definite:
            raise
        raise OutcomeUnknown(f"{done}, but this node cannot see now what came of it: {error}") from error

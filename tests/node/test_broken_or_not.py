"""Which errors that nobody caught end a node."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from node.serve import _break


@pytest.mark.parametrize(
    "context",
    [
        {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")},
        {"message": "Fatal error on transport", "exception": ConnectionResetError()},
        {"message": "SSL error in data received", "exception": ssl.SSLError(1, "wrong version")},
        {"message": "Unclosed connection"},
    ],
)
async def test_what_clients_and_the_machine_do_does_not(context: dict[str, object]) -> None:
    work = asyncio.create_task(asyncio.sleep(0))
    _break(work, context)
    await work
    assert not work.cancelled()


async def test_a_broken_invariant_does() -> None:
    work = asyncio.create_task(asyncio.sleep(0))
    _break(work, {"message": "Exception in callback", "exception": AssertionError("a waiting run must exist")})
    with pytest.raises(asyncio.CancelledError):
        await work

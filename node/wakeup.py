"""How the loops of a node sleep: until they are woken, and never longer than they say."""

from __future__ import annotations

import asyncio


class Wakeup:
    """One sleeper, any number of wakers; a call of `wake` while nobody sleeps ends the next sleep at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def sleep(self, seconds: float) -> None:
        """Returns when woken, or after `seconds`."""
        if seconds > 0 and not self._event.is_set():
            timer = asyncio.get_running_loop().call_later(seconds, self._event.set)
            try:
                await self._event.wait()
            finally:
                timer.cancel()
        else:
            await asyncio.sleep(0)
        self._event.clear()

"""A sink that keeps all it is given, and tells when something has come."""

import asyncio


class KeptOutput:
    """Implements executor.interface.OutputSink."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._come = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.pieces.append(data)
        self._come.set()

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    async def wait_for(self, text: bytes) -> None:
        """Until `text` has been put out."""
        while text not in self.data:
            self._come.clear()
            await self._come.wait()

"""The log process' side of the local socket, in the hands of a test: it answers only what the test says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sample_status import STATUS

from raftlog import local_protocol as local
from raftlog.client import LogClient
from raftlog.config import RaftConfig
from raftlog.unix_socket import short_address
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, frame, pack, unpack

INCARNATION = 7


class FakeLogProcess(asyncio.Protocol):
    """`heard` are the client's messages after its hello."""

    def __init__(self, *, version: int = local.VERSION, answers_hello: bool = True) -> None:
        self.heard: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._version = version
        self._answers_hello = answers_hello
        self._parser = FrameParser(LOCAL_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._server: asyncio.Server | None = None

    async def serve(self, data_dir: Path) -> None:
        with short_address(local.socket_path(data_dir)) as address:
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: self, address)

    async def client(self, data_dir: Path, config: RaftConfig | None = None) -> LogClient:
        await self.serve(data_dir)
        return await LogClient.connect(data_dir, config or RaftConfig())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        while (content := self._parser.next_frame()) is not None:
            message = unpack(content)
            if message[0] != local.HELLO:
                self.heard.put_nowait(message)
            elif self._answers_hello:
                self.say(local.HELLO, self._version, INCARNATION, local.packable(STATUS))

    def say(self, *message: Any) -> None:
        self.say_bytes(frame(pack(message), LOCAL_FRAME_BYTES_MAX))

    def say_bytes(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def hears(self) -> list[Any]:
        async with asyncio.timeout(5):
            return await self.heard.get()

    def die(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

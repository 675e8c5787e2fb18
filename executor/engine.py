"""The Docker Engine API, as much of it as a run needs: HTTP over the engine's Unix socket.

Plain aiohttp, which is here anyway. aiodocker was looked at: it decodes output to text, takes a broken stream for its
end, and reads the engine's address from the environment; what would be left of it are ten calls without types.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

API_VERSIONS = ((1, 25), (1, 47))
"""Spoken at least and at most; the engine's own, if it is between: engines refuse versions that are too old or too
new."""
CALL_TIMEOUT_S = 30.0
"""Of a call that does not wait for a container. A busy engine takes a second or two to create one."""
CONNECT_TIMEOUT_S = 2.0
_HOST = "http://engine"

Query = Mapping[str, str]


class EngineError(Exception):
    """The engine refused a call; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineAway(Exception):
    """The engine does not answer, or broke off: whether it did what it was asked is not known."""


class Engine:
    """One engine. Opens nothing before the first call; close it in the end."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._version: str | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        await self._call("POST", "/containers/create", {"name": name}, body)

    async def start(self, name: str) -> None:
        await self._call("POST", f"/containers/{name}/start")

    async def wait(self, name: str) -> int:
        """The exit code, once it has ended; at once if it had."""
        answer = await self._call("POST", f"/containers/{name}/wait", timeout_s=None)
        return int(answer["StatusCode"])

    async def state(self, name: str) -> Mapping[str, Any]:
        state: Mapping[str, Any] = (await self._call("GET", f"/containers/{name}/json"))["State"]
        return state

    async def stop(self, name: str, *, grace_s: int) -> None:
        """Its stop signal, and SIGKILL after the grace. Answers when it has ended."""
        await self._call("POST", f"/containers/{name}/stop", {"t": str(grace_s)})

    async def remove(self, name: str) -> None:
        """Kill it if it runs, and remove it with its anonymous volumes. One that is not there, or is being removed, is
        fine."""
        try:
            await self._call("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
        except EngineError as error:
            if error.status not in (404, 409):
                raise

    async def names(self, labels: Mapping[str, str]) -> list[str]:
        """Of all containers with these labels, whatever their state."""
        filters = json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]})
        found: Sequence[Mapping[str, Any]] = await self._call(
            "GET", "/containers/json", {"all": "1", "filters": filters}
        )
        return [str(one["Names"][0]).removeprefix("/") for one in found if one["Names"]]

    async def has_image(self, image: str) -> bool:
        try:
            await self._call("GET", f"/images/{image}/json")
        except EngineError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def pull(self, image: str) -> None:
        """Takes as long as it takes; a cancelled task ends it. Raises EngineError if the registry refuses."""
        name, tag = split_image(image)
        async with self._open("POST", "/images/create", {"fromImage": name, "tag": tag}) as answer:
            async for line in answer.content:
                told = json.loads(line)
                if "error" in told:
                    raise EngineError(answer.status, str(told["error"]))

    @asynccontextmanager
    async def attached(self, name: str) -> AsyncIterator[aiohttp.StreamReader]:
        """What the container will write, in frames (engine_frames.py), until it ends. Attached before the start,
        nothing is missed, and nothing needs to be kept by the engine."""
        query = {"stream": "1", "stdout": "1", "stderr": "1"}
        async with self._open("POST", f"/containers/{name}/attach", query) as answer:
            yield answer.content

    async def _call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = CALL_TIMEOUT_S,
    ) -> Any:
        """The answer's JSON, None if it has none."""
        try:
            async with asyncio.timeout(timeout_s), self._open(method, path, query, body) as answer:
                text = await answer.read()
        except TimeoutError:
            raise self._away(f"no answer within {timeout_s:g} s") from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise self._away("what it says is no JSON") from None

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is no refusal. Raises EngineError or EngineAway, also for what happens while it is read."""
        try:
            url = f"{_HOST}/v{await self._known_version()}{path}"
            async with self._opened().request(method, url, params=query, json=body) as answer:
                if answer.status >= 400:
                    raise EngineError(answer.status, await _message_of(answer))
                yield answer
        except TimeoutError:
            raise self._away("it takes no connection, or does not answer on it") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._version = None  # another engine may be there next time
            raise self._away(_reason(error)) from None

    async def _known_version(self) -> str:
        if self._version is None:
            async with asyncio.timeout(CALL_TIMEOUT_S), self._opened().get(f"{_HOST}/_ping") as answer:
                self._version = chosen_version(answer.headers.get("Api-Version", ""))
        return self._version

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # A connection a call: one that the engine is just closing would fail a call that is not repeated.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(self.socket, limit=0, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                trust_env=False,
            )
        return self._session

    def _away(self, why: str) -> EngineAway:
        return EngineAway(f"the container engine at {self.socket} does not answer: {why}")


def chosen_version(offered: str) -> str:
    """The version of the API to speak with an engine whose newest is `offered`. Raises ValueError if there is none."""
    least, most = API_VERSIONS
    major, _, minor = offered.partition(".")
    version = min((int(major), int(minor)), most)
    if version < least:
        raise ValueError(f"it speaks version {offered} of its API, {least[0]}.{least[1]} is needed")
    return f"{version[0]}.{version[1]}"


def split_image(image: str) -> tuple[str, str]:
    """Name and tag of an image, as pulling takes them: without a tag the engine would pull all that there are."""
    if "@" in image:
        return image, ""
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


async def _message_of(answer: aiohttp.ClientResponse) -> str:
    try:
        return str(json.loads(await answer.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__

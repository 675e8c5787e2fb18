"""One request of the client: tried at each address in turn until a node answers it.

Every request may be sent twice: reads change nothing, creations carry an idempotency key, and a delete is done when the
thing is gone. So an address that fell silent in the middle of a write is no reason to stop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from httpapi.client_errors import BadAddress, ClientError, NoQuorum, Refused, Unreachable
from httpapi.problem import CONTENT_TYPE, SAFE_METHODS

CONNECT_TIMEOUT_S = 3.0
STREAM_SILENCE_S = 45.0
"""A stream in which nothing came for so long, not even a heartbeat, is broken."""
DETAIL_LENGTH_MAX = 200
"""Characters of an answer that is no problem document (a proxy's page) that an error repeats."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A successful answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def parse_addresses(text: str) -> tuple[str, ...]:
    """'http://a:8101,b:8101' → base URLs in order. Raises BadAddress."""
    addresses = tuple(_base_url(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise BadAddress("No address of the API is given: write one like http://127.0.0.1:8101")
    return addresses


def _base_url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadAddress(f"{text} is not an address of the API: write it like http://127.0.0.1:8101")
    return url.rstrip("/")


class Transport:
    """Sends requests to the first address that answers, and stays with it. An async context manager."""

    def __init__(self, addresses: Sequence[str], *, timeout_s: float) -> None:
        self._addresses = list(addresses)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, CONNECT_TIMEOUT_S))
        self._session: aiohttp.ClientSession | None = None

    @property
    def address(self) -> str:
        """The base URL that is asked first: the one that answered last."""
        return self._addresses[0]

    async def open(self) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_count_send)
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, headers={"User-Agent": "horae"}, trace_configs=[trace]
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: Any = msgspec.UNSET,
    ) -> Answer:
        """The first answer that settles the request. Raises Refused, NoQuorum or Unreachable."""
        failures: list[ClientError] = []
        sends: list[str] = []
        for address in tuple(self._addresses):
            try:
                answer = await self._send_to(address, method, path, query, headers or {}, body, sends)
            except (NoQuorum, Unreachable) as failure:
                failures.append(failure)
                continue
            except Refused as refusal:
                self._prefer(address)
                if refusal.status == 404 and method == "DELETE" and _sent_before(sends, failures):
                    return Answer(status=204, headers={}, body=b"")  # an earlier try of ours deleted it
                raise
            self._prefer(address)
            return answer
        raise _summary(failures)

    async def stream(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """What the first node that answers sends for as long as it does. Raises Refused, NoQuorum or Unreachable, also
        when the stream breaks."""
        failures: list[ClientError] = []
        for address in tuple(self._addresses):
            began = False
            try:
                async for chunk in self._stream_of(address, path, query, headers or {}):
                    began = True
                    self._prefer(address)
                    yield chunk
                return
            except (NoQuorum, Unreachable) as failure:
                if began:
                    raise
                failures.append(failure)
        raise _summary(failures)

    async def _stream_of(
        self, address: str, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        assert self._session is not None, "use `async with Client(...)`"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=STREAM_SILENCE_S)
        try:
            async with self._session.get(
                address + path,
                params=query,
                headers=headers,
                allow_redirects=False,
                timeout=timeout,
                trace_request_ctx=[],
            ) as response:
                if response.status >= 300:
                    raise _refusal(response, await response.read(), "GET")
                async for chunk in response.content.iter_any():
                    yield chunk
        except aiohttp.ClientConnectorError as fault:
            raise Unreachable([f"{address}: {_reason(fault)}"], definite=True) from None
        except (TimeoutError, aiohttp.ClientError, OSError) as fault:
            raise Unreachable([f"{address}: {fault or type(fault).__name__}"], definite=True) from None

    def _prefer(self, address: str) -> None:
        self._addresses.remove(address)
        self._addresses.insert(0, address)

    async def _send_to(
        self,
        address: str,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: Any,
        sends: list[str],
    ) -> Answer:
        assert self._session is not None, "use `async with Client(...)`"
        data = None if body is msgspec.UNSET else msgspec.json.encode(body)
        sent = dict(headers) | ({} if data is None else {"Content-Type": "application/json"})
        try:
            async with self._session.request(
                method,
                address + path,
                params=query,
                headers=sent,
                data=data,
                allow_redirects=False,
                trace_request_ctx=sends,
            ) as response:
                content = await response.read()
        except aiohttp.ClientConnectorError as fault:
            raise Unreachable([f"{address}: {_reason(fault)}"], definite=True) from None
        except TimeoutError:
            limit_s = self._timeout.total
            raise Unreachable([f"{address}: no answer within {limit_s:g} s"], definite=_safe(method)) from None
        except (aiohttp.ClientError, OSError) as fault:
            raise Unreachable([f"{address}: {fault or type(fault).__name__}"], definite=_safe(method)) from None
        if response.status >= 300:
            raise _refusal(response, content, method)
        return Answer(status=response.status, headers=response.headers, body=content)


async def _count_send(
    session: aiohttp.ClientSession, context: Any, sent: aiohttp.TraceRequestHeadersSentParams
) -> None:
    # aiohttp itself repeats a DELETE whose connection broke, so the tries are counted where they leave.
    context.trace_request_ctx.append(str(sent.url))


def _sent_before(sends: Sequence[str], failures: Sequence[ClientError]) -> bool:
    """Whether an earlier try, of which nothing is known, may have done what this one found done."""
    settled = sum(isinstance(failure, Refused) and failure.definite for failure in failures)
    return len(sends) - 1 > settled


def _safe(method: str) -> bool:
    return method in SAFE_METHODS


def _reason(fault: aiohttp.ClientConnectorError) -> str:
    return (fault.os_error.strerror or str(fault.os_error) or "cannot connect").lower()


def _refusal(response: aiohttp.ClientResponse, content: bytes, method: str) -> Refused:
    problem: Any = None
    if response.content_type == CONTENT_TYPE:
        try:
            problem = msgspec.json.decode(content)
        except msgspec.DecodeError:
            problem = None
    if not isinstance(problem, dict):
        problem = _foreign_problem(response.status, content, method)
    return (NoQuorum if response.status == 503 else Refused)(problem | {"status": response.status})


def _foreign_problem(status: int, content: bytes, method: str) -> dict[str, Any]:
    """What something between us and the node (a proxy) said, in our form. Whether a write happened is then unknown."""
    text = " ".join(content[: DETAIL_LENGTH_MAX * 4].decode("utf-8", "replace").split())[:DETAIL_LENGTH_MAX]
    title = next((known.phrase for known in HTTPStatus if known == status), "Unknown status")
    problem = {"type": "about:blank", "title": title, "detail": f"Status {status}: {text or title}"}
    return problem if _safe(method) else problem | {"outcome": "indefinite"}


def _maybe_done(failures: Sequence[ClientError]) -> bool:
    return any(not failure.definite for failure in failures)


def _summary(failures: Sequence[ClientError]) -> ClientError:
    """One error for all addresses: a node's own words when one spoke, and indefinite when any try was."""
    spoken = [failure for failure in failures if isinstance(failure, NoQuorum)]
    if spoken:
        outcome = "indefinite" if _maybe_done(failures) else "definite"
        return NoQuorum({**spoken[-1].problem, "outcome": outcome})
    tries = [sentence for failure in failures if isinstance(failure, Unreachable) for sentence in failure.tries]
    return Unreachable(tries, definite=not _maybe_done(failures))

"""Requests → values: the bounded body, its JSON, and the headers that carry meaning."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from httpapi.fields import build, shorten
from httpapi.problem import TooSlow, UnsupportedMediaType
from node.interface import FieldError, Invalid, Malformed, NotFound, PreconditionFailed, TooLarge

BODY_BYTES_MAX = 1024 * 1024
BODY_TIMEOUT_S = 30.0
"""How long a body may take to arrive, so that slow senders cannot hold the node's request slots."""
NESTING_MAX = 64
"""Lists and objects inside one another. Python's own limit is no limit for a client: what one request could still read,
another with more of the stack in use could not show."""
IDENTIFIER_LENGTH_MAX = 200
IDEMPOTENCY_KEY_LENGTH_MAX = 255

T = TypeVar("T", bound=msgspec.Struct)

_IDENTIFIER = re.compile(r"[0-9A-Za-z_-]+")
_ENTITY_TAG = re.compile(r'"?([0-9]{1,15})"?')
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


async def read_json(request: web.Request, kind: type[T]) -> T:
    """The body as a `kind`. Raises TooLarge, TooSlow, UnsupportedMediaType, Malformed (no JSON) or Invalid (fields)."""
    return build(kind, decode_json(await _read_declared_json(request)))


async def read_any_json(request: web.Request) -> Any:
    """The body as plain values, whatever it is. Raises what `read_json` raises, but Invalid."""
    return decode_json(await _read_declared_json(request))


async def read_json_or_empty(request: web.Request, kind: type[T]) -> T:
    """Like `read_json`, for calls whose body may be left out; then every field has its default."""
    if not request.body_exists:
        return kind()
    body = await read_body(request)
    if not body:
        return kind()
    _require_json_type(request)
    return build(kind, decode_json(body))


async def _read_declared_json(request: web.Request) -> bytes:
    # The type first: a browser can send another site's form without asking, but not this content type.
    _require_json_type(request)
    return await read_body(request)


def _require_json_type(request: web.Request) -> None:
    kind = request.content_type
    if "Content-Type" in request.headers and (
        kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    ):
        return
    found = f"not {kind}" if "Content-Type" in request.headers else "and there is no Content-Type"
    raise UnsupportedMediaType(f"Send JSON with Content-Type: application/json, {found}.")


async def read_body(request: web.Request) -> bytes:
    """The whole body, at most BODY_BYTES_MAX bytes of it (after decompression)."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _collect(request)
    except TimeoutError:
        raise TooSlow from None


async def _collect(request: web.Request) -> bytes:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _too_large()
    return bytes(body)


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {BODY_BYTES_MAX} bytes.")


def decode_json(body: bytes) -> Any:
    """JSON text as plain values. Raises Malformed, saying where it broke."""
    if not body:
        raise Malformed("The body is empty; a JSON object is expected.")
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise Malformed(f"The body is not JSON: {fault}") from None
    if body.count(b"[") + body.count(b"{") > NESTING_MAX and _is_too_deep(value):
        raise _too_deep()
    json.loads(body, object_pairs_hook=_refuse_repeats)
    return value


def _refuse_repeats(members: list[tuple[str, Any]]) -> None:
    """A name given twice is a slip, and JSON leaves open which value counts; taking one in silence would drop the
    other. msgspec does not tell, so the text is gone through once more."""
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise Malformed(f"The body has {shorten(name)!r} twice in one object.")
        seen.add(name)


def _is_too_deep(value: Any) -> bool:
    """Level by level, so that no depth can exhaust the stack."""
    level = [value]
    for _ in range(NESTING_MAX):
        level = [member for one in level for member in _members(one)]
    return any(isinstance(one, dict | list) for one in level)


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> Malformed:
    return Malformed(f"The body is nested more than {NESTING_MAX} levels deep.")


def identifier(request: web.Request, name: str, what: str) -> str:
    """The id in the path. What cannot be an id is answered like one that does not exist."""
    text = request.match_info[name]
    if len(text) > IDENTIFIER_LENGTH_MAX or not _IDENTIFIER.fullmatch(text):
        raise NotFound(f"There is no such {what}.")
    return text


def expected_version(request: web.Request) -> int | None:
    """The version that If-Match names (None: any). Raises PreconditionFailed for tags that can never match."""
    text = request.headers.get("If-Match", "*").strip()
    if text == "*":
        return None
    if text.startswith("W/"):
        raise PreconditionFailed("If-Match compares strongly: send the ETag without W/.")
    tag = _ENTITY_TAG.fullmatch(text)
    if tag is None:
        raise Malformed(
            "If-Match must be one ETag of this object.",
            [FieldError(path="If-Match", message='write it as in the ETag header, for example "3"')],
        )
    return int(tag[1])


def entity_tag(version: int) -> str:
    return f'"{version}"'


def idempotency_key(request: web.Request, in_body: str | None = None) -> str | None:
    """The key from the header or the body's field; when both are there they must agree. A quoted header (the IETF
    draft's form) and a bare one are the same key."""
    header = request.headers.get("Idempotency-Key")
    if len(request.headers.getall("Idempotency-Key", ())) > 1:
        raise Invalid(errors=[FieldError(path="Idempotency-Key", message="is there more than once")])
    if header is not None and len(header) > 1 and header[0] == header[-1] == '"':
        header = header[1:-1]
    for path, key in (("Idempotency-Key", header), ("idempotency_key", in_body)):
        if key is not None and (len(key) > IDEMPOTENCY_KEY_LENGTH_MAX or not _KEY.fullmatch(key)):
            message = f"must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters without blanks at its ends"
            raise Invalid(errors=[FieldError(path=path, message=message)])
    if header is not None and in_body is not None and header != in_body:
        message = "differs from the Idempotency-Key header; send one of them, or the same in both"
        raise Invalid(errors=[FieldError(path="idempotency_key", message=message)])
    return in_body if header is None else header

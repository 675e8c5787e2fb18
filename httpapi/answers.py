"""Successful answers: JSON bodies, and the headers that say where a read stood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from node.interface import Read

APPLIED_INDEX_HEADER = "Horae-Applied-Index"
STALE_HEADER = "Horae-Stale-Seconds"


def json_response(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)


def read_headers(read: Read) -> dict[str, str]:
    """The applied index that the read saw and how many seconds it may be behind ('unknown' when this node has not
    reached a majority since it started)."""
    stale = f"{read.stale_s:.3f}" if math.isfinite(read.stale_s) else "unknown"
    return {APPLIED_INDEX_HEADER: str(read.applied_index), STALE_HEADER: stale}

"""The client's calls about calendars."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from httpapi.transport import Transport
from node.interface import LIST_LIMIT_MAX

Json = dict[str, Any]


class CalendarCalls:
    """A part of Client; each may raise a ClientError."""

    _transport: Transport

    async def _json(self, method: str, path: str, **request: Any) -> Json:
        raise NotImplementedError

    async def calendar(self, name: str) -> Json:
        return await self._json("GET", _path(name))

    async def calendars(self, *, limit: int | None = None, cursor: str | None = None) -> Json:
        """One page, in order of name: items and next_cursor."""
        query = [(key, str(value)) for key, value in (("limit", limit), ("cursor", cursor)) if value is not None]
        return await self._json("GET", "/v1/calendars", query=query)

    async def all_calendars(self) -> AsyncIterator[Json]:
        """Every calendar, page after page."""
        cursor: str | None = None
        while True:
            page = await self.calendars(limit=LIST_LIMIT_MAX, cursor=cursor)
            for calendar in page["items"]:
                yield calendar
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def put_calendar(
        self, name: str, days: Sequence[str], *, tz: str | None = None, version: int | None = None
    ) -> Json:
        """Set the days of a calendar; with `version`, only if it still has that one (0: there is none yet)."""
        body = {"days": list(days), "tz": tz}
        return await self._json("PUT", _path(name), headers=_if_match(version), body=body)

    async def delete_calendar(self, name: str, *, version: int | None = None) -> None:
        await self._transport.send("DELETE", _path(name), headers=_if_match(version))


def _path(name: str) -> str:
    return f"/v1/calendars/{quote(name, safe='')}"


def _if_match(version: int | None) -> Mapping[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}

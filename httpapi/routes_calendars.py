"""Calendars: named days on which the jobs that name them do not run."""

from __future__ import annotations

from aiohttp import web

from httpapi import render
from httpapi.answers import json_response, read_headers
from httpapi.parsing import IDENTIFIER_LENGTH_MAX, entity_tag, expected_version, read_json
from httpapi.query import Query
from node.interface import CalendarDraft, NotFound, Scheduler


class CalendarRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/calendars", self.list_calendars),
            web.get("/v1/calendars/{calendar:[^/:]+}", self.show),
            web.put("/v1/calendars/{calendar:[^/:]+}", self.put),
            web.delete("/v1/calendars/{calendar:[^/:]+}", self.delete),
        ]

    async def list_calendars(self, request: web.Request) -> web.Response:
        """In order of name."""
        query = Query(request, ("limit", "cursor", "consistency"))
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        query.done()
        page = await self._scheduler.calendars(limit=limit, cursor=cursor, consistency=consistency)
        body = render.page(page.items, page.next_cursor, render.calendar)
        return json_response(body, headers=read_headers(page.read))

    async def show(self, request: web.Request) -> web.Response:
        query = Query(request, ("consistency",))
        consistency = query.consistency()
        query.done()
        calendar, read = await self._scheduler.calendar(_name(request), consistency=consistency)
        headers = read_headers(read) | {"ETag": entity_tag(calendar.version)}
        return json_response(render.calendar(calendar), headers=headers)

    async def put(self, request: web.Request) -> web.Response:
        """200 and the calendar. With If-Match a compare-and-set ("0": only if there is none yet)."""
        Query(request, ()).done()
        draft = await read_json(request, CalendarDraft)
        version = expected_version(request)
        calendar = await self._scheduler.put_calendar(_name(request), draft, expected_version=version)
        return json_response(render.calendar(calendar), headers={"ETag": entity_tag(calendar.version)})

    async def delete(self, request: web.Request) -> web.Response:
        """204; 409 while a job names it. With If-Match a compare-and-set."""
        Query(request, ()).done()
        await self._scheduler.delete_calendar(_name(request), expected_version=expected_version(request))
        return web.Response(status=204)


def _name(request: web.Request) -> str:
    """The name in the path. One that no calendar can have is answered like one that does not exist."""
    name = request.match_info["calendar"]
    if len(name) > IDENTIFIER_LENGTH_MAX:
        raise NotFound("There is no such calendar.")
    return name

"""Teams: what they may use, and what they have."""

from __future__ import annotations

from aiohttp import web

from httpapi import render
from httpapi.answers import json_response, read_headers
from httpapi.parsing import entity_tag, expected_version, read_json
from httpapi.query import Query
from node.interface import TEAM_LENGTH_MAX, NotFound, Scheduler, TeamDraft


class TeamRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/teams", self.list_teams),
            web.get("/v1/teams/{team:[^/:]+}", self.show),
            web.put("/v1/teams/{team:[^/:]+}", self.put),
            web.delete("/v1/teams/{team:[^/:]+}", self.delete),
        ]

    async def list_teams(self, request: web.Request) -> web.Response:
        """Every team that has settings, jobs or runs under way, in order of name."""
        query = Query(request, ("limit", "cursor", "consistency"))
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        query.done()
        page = await self._scheduler.teams(limit=limit, cursor=cursor, consistency=consistency)
        return json_response(render.page(page.items, page.next_cursor, render.team), headers=read_headers(page.read))

    async def show(self, request: web.Request) -> web.Response:
        query = Query(request, ("consistency",))
        consistency = query.consistency()
        query.done()
        view, read = await self._scheduler.team(_known_team(request), consistency=consistency)
        headers = read_headers(read) | {"ETag": entity_tag(view.team.version)}
        return json_response(render.team(view), headers=headers)

    async def put(self, request: web.Request) -> web.Response:
        """200 and the team. Fields that are left out go back to their defaults. With If-Match a compare-and-set."""
        Query(request, ()).done()
        draft = await read_json(request, TeamDraft)
        version = expected_version(request)
        view = await self._scheduler.put_team(request.match_info["team"], draft, expected_version=version)
        return json_response(render.team(view), headers={"ETag": entity_tag(view.team.version)})

    async def delete(self, request: web.Request) -> web.Response:
        """204: the team has the defaults again; its jobs stay. With If-Match a compare-and-set."""
        Query(request, ()).done()
        await self._scheduler.delete_team(_known_team(request), expected_version=expected_version(request))
        return web.Response(status=204)


def _known_team(request: web.Request) -> str:
    """The name in the path. One that no team can have is answered like one that does not exist."""
    team = request.match_info["team"]
    if len(team) > TEAM_LENGTH_MAX:
        raise NotFound("There is no such team.")
    return team

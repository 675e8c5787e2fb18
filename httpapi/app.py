"""The HTTP application of one node: routes and what surrounds them. It is told a Scheduler and knows no more."""

from __future__ import annotations

from aiohttp import web

from httpapi.event_stream import EventStreams
from httpapi.guard import Guard
from httpapi.middleware import REQUESTS_MAX, WRITES_MAX, bounded, guarded, harden, logged, problems
from httpapi.routes_backfills import BackfillRoutes
from httpapi.routes_calendars import CalendarRoutes
from httpapi.routes_cluster import ClusterRoutes
from httpapi.routes_completion import CompletionRoutes
from httpapi.routes_job_changes import JobChangeRoutes
from httpapi.routes_jobs import JobRoutes
from httpapi.routes_log import LogRoutes
from httpapi.routes_runs import RunRoutes
from httpapi.routes_teams import TeamRoutes
from node.interface import Scheduler


def build_app(
    scheduler: Scheduler,
    *,
    node: str = "",
    address: str = "127.0.0.1:8101",
    access_log: bool = False,
    requests_max: int = REQUESTS_MAX,
    writes_max: int = WRITES_MAX,
) -> web.Application:
    """The API over `scheduler`. `node` is this node's id (so that it never asks itself for a log), `address` the
    'host:port' that it listens on: on loopback, requests with a foreign Host header are refused (guard.py).

    Serve it with server.py. `access_log=True` logs a structured record a request."""
    middlewares = [logged()] if access_log else []
    middlewares += [problems(), guarded(Guard(address)), bounded(requests_max, writes_max)]
    app = web.Application(middlewares=middlewares)
    app.add_routes(JobRoutes(scheduler).table())
    app.add_routes(JobChangeRoutes(scheduler).table())
    app.add_routes(BackfillRoutes(scheduler).table())
    app.add_routes(CalendarRoutes(scheduler).table())
    app.add_routes(RunRoutes(scheduler).table())
    app.add_routes(CompletionRoutes(scheduler).table())
    app.add_routes(TeamRoutes(scheduler).table())
    streams = EventStreams()
    app.on_shutdown.append(streams.close)
    app.add_routes(LogRoutes(scheduler, node=node, streams=streams).table())
    app.add_routes(ClusterRoutes(scheduler, node=node).table())
    app.on_response_prepare.append(harden)
    return app

"""The log of a run's attempt, from whichever node has it: as text, or followed as server-sent events.

A node answers from its own disk when it can. Else it asks the node that ran the attempt (forwarding.py).
"""

from __future__ import annotations

import contextlib

from aiohttp import web

from httpapi.event_stream import EventStreams
from httpapi.forwarding import FORWARDED_HEADER, ask_peer
from httpapi.log_events import START, Position, parse_position
from httpapi.log_follower import LogFollower, own_events
from httpapi.parsing import identifier
from httpapi.problem import PeerUnreachable
from httpapi.query import Query
from node.interface import HoraeError, LogElsewhere, Malformed, NotFound, RunLog, Scheduler

ATTEMPT_HEADER = "Horae-Attempt"
TRUNCATED_HEADER = "Horae-Log-Truncated"
CUT_HEADER = "Horae-Log-Cut-Bytes"
POSITION_HEADER = "Last-Event-ID"
ATTEMPTS_MAX = 1_000_000


class LogRoutes:
    def __init__(self, scheduler: Scheduler, *, node: str, streams: EventStreams) -> None:
        self._scheduler = scheduler
        self._node = node
        self._streams = streams

    def table(self) -> list[web.RouteDef]:
        return [web.get("/v1/runs/{run_id:[^/:]+}/log", self.show)]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Text, empty when there was no output. `attempt` chooses one; without it the one that is running, or else the
        last. With `follow=1` events, until the attempt is over, or the run when none was chosen."""
        query = Query(request, ("attempt", "follow"))
        attempt = query.integer("attempt", least=1, most=ATTEMPTS_MAX, default=0) or None
        follows = query.integer("follow", least=0, most=1, default=0)
        query.done()
        run_id = identifier(request, "run_id", "run")
        if follows:
            return await self._follow(request, run_id, attempt)
        try:
            return _text(await self._scheduler.run_log(run_id, attempt=attempt))
        except LogElsewhere as elsewhere:
            if FORWARDED_HEADER in request.headers or elsewhere.node == self._node:
                raise NotFound(str(elsewhere)) from None
            return await self._from_peer_or_store(elsewhere.node, run_id, attempt)

    async def _follow(self, request: web.Request, run_id: str, attempt: int | None) -> web.StreamResponse:
        start = _position(request, attempt)
        if FORWARDED_HEADER in request.headers:
            if attempt is None:
                raise Malformed("A node that follows a log for another is told which attempt.")
            events = own_events(self._scheduler, run_id, attempt=attempt, offset=start.offset)
        else:
            follower = LogFollower(self._scheduler, node=self._node, run_id=run_id, attempt=attempt, start=start)
            events = follower.events()
        return await self._streams.serve(request, events)

    async def _from_peer_or_store(self, holder: str, run_id: str, attempt: int | None) -> web.Response:
        """Its node has it for certain; the log store, if there is one, when that node has gone."""
        try:
            return await self._from_peer(holder, run_id, attempt)
        except PeerUnreachable:
            with contextlib.suppress(HoraeError):
                return _text(await self._scheduler.run_log(run_id, attempt=attempt, archived=True))
            raise

    async def _from_peer(self, holder: str, run_id: str, attempt: int | None) -> web.Response:
        address = self._scheduler.node_addresses().get(holder)
        if address is None:
            raise PeerUnreachable(f"The log is on node {holder}, which is not part of the cluster right now.")
        return await ask_peer(
            "GET",
            f"http://{address}/v1/runs/{run_id}/log",
            params={} if attempt is None else {"attempt": str(attempt)},
            asking=self._node,
            unreachable=f"The log is on node {holder}, which does not answer.",
            kept_headers=(ATTEMPT_HEADER, TRUNCATED_HEADER, CUT_HEADER),
        )


def _position(request: web.Request, attempt: int | None) -> Position:
    """Where a reader that was cut off goes on: the id of the last event that it has seen, or a bare offset."""
    text = request.headers.get(POSITION_HEADER)
    if not text:
        return START
    position = parse_position(text)
    if position is None or position.attempt == 0 or (position.attempt or 0) > ATTEMPTS_MAX:
        raise Malformed(f"{POSITION_HEADER} must be the id of an event, such as 1:4096, or an offset in bytes.")
    if position.attempt is None and attempt is None:
        raise Malformed(f"{POSITION_HEADER} names no attempt: write it as ATTEMPT:OFFSET, or choose one with attempt=.")
    return position


def _text(log: RunLog) -> web.Response:
    headers = {
        ATTEMPT_HEADER: str(log.attempt),
        TRUNCATED_HEADER: "true" if log.cut_bytes else "false",
        CUT_HEADER: str(log.cut_bytes),
    }
    return web.Response(body=log.output, content_type="text/plain", charset="utf-8", headers=headers)

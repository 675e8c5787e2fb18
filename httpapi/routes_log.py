"""The log of a run's attempt, from whichever node has it.

A node answers from its own disk when it can. Else it asks the node that ran the attempt, once (forwarding.py).
"""

from __future__ import annotations

from aiohttp import web

from httpapi.forwarding import FORWARDED_HEADER, ask_peer
from httpapi.parsing import identifier
from httpapi.problem import PeerUnreachable
from httpapi.query import Query
from node.interface import LogElsewhere, NotFound, RunLog, Scheduler

ATTEMPT_HEADER = "Horae-Attempt"
TRUNCATED_HEADER = "Horae-Log-Truncated"
ATTEMPTS_MAX = 1_000_000


class LogRoutes:
    def __init__(self, scheduler: Scheduler, *, node: str) -> None:
        self._scheduler = scheduler
        self._node = node

    def table(self) -> list[web.RouteDef]:
        return [web.get("/v1/runs/{run_id:[^/:]+}/log", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Text, empty when there was no output. `attempt` chooses one; without it the last that has ended, or else the
        one under way."""
        query = Query(request, ("attempt",))
        attempt = query.integer("attempt", least=1, most=ATTEMPTS_MAX, default=0) or None
        query.done()
        run_id = identifier(request, "run_id", "run")
        try:
            return _text(await self._scheduler.run_log(run_id, attempt=attempt))
        except LogElsewhere as elsewhere:
            if FORWARDED_HEADER in request.headers or elsewhere.node == self._node:
                raise NotFound(str(elsewhere)) from None
            return await self._from_peer(elsewhere.node, run_id, attempt)

    async def _from_peer(self, holder: str, run_id: str, attempt: int | None) -> web.Response:
        address = self._scheduler.node_addresses().get(holder)
        if address is None:
            raise PeerUnreachable(f"The log is on node {holder}, which is not part of the cluster right now.")
        return await self._ask(holder, address, run_id, attempt)

    async def _ask(self, holder: str, address: str, run_id: str, attempt: int | None) -> web.Response:
        return await ask_peer(
            "GET",
            f"http://{address}/v1/runs/{run_id}/log",
            params={} if attempt is None else {"attempt": str(attempt)},
            asking=self._node,
            unreachable=f"The log is on node {holder}, which does not answer.",
            kept_headers=(ATTEMPT_HEADER, TRUNCATED_HEADER),
        )


def _text(log: RunLog) -> web.Response:
    headers = {ATTEMPT_HEADER: str(log.attempt), TRUNCATED_HEADER: "true" if log.truncated else "false"}
    return web.Response(body=log.output, content_type="text/plain", charset="utf-8", headers=headers)

"""The log of a run's attempt, from whichever node has it.

A node answers from its own disk when it can. Else it asks the node that ran the attempt, once: the request that it
sends on carries FORWARDED_HEADER, and a node that receives that header never sends it further, so no loop can form.
"""

from __future__ import annotations

import aiohttp
from aiohttp import web

from httpapi.parsing import identifier
from httpapi.problem import PeerUnreachable
from httpapi.query import Query
from node.interface import NotFound, Run, RunLog, Scheduler

FORWARDED_HEADER = "Horae-Forwarded-By"
ATTEMPT_HEADER = "Horae-Attempt"
TRUNCATED_HEADER = "Horae-Log-Truncated"
ATTEMPTS_MAX = 1_000_000
PEER_TIMEOUT_S = 10.0
PEER_BYTES_MAX = 16 * 1024 * 1024
"""The most that is taken from another node; far above what an attempt may keep."""


class LogRoutes:
    def __init__(self, scheduler: Scheduler, *, node: str) -> None:
        self._scheduler = scheduler
        self._node = node

    def table(self) -> list[web.RouteDef]:
        return [web.get("/v1/runs/{run_id:[^/:]+}/log", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Text. `attempt` chooses one; without it the last that has a log."""
        query = Query(request, ("attempt",))
        attempt = query.integer("attempt", least=1, most=ATTEMPTS_MAX, default=0) or None
        query.done()
        run_id = identifier(request, "run_id", "run")
        try:
            return _text(await self._scheduler.run_log(run_id, attempt=attempt))
        except NotFound as missing:
            if FORWARDED_HEADER in request.headers:
                raise
            return await self._from_peer(run_id, attempt, missing)

    async def _from_peer(self, run_id: str, attempt: int | None, missing: NotFound) -> web.Response:
        run, _ = await self._scheduler.run(run_id, consistency="local")
        holder = _holder(run, attempt)
        if holder is None or holder == self._node:
            raise missing
        address = self._scheduler.node_addresses().get(holder)
        if address is None:
            raise PeerUnreachable(f"The log is on node {holder}, which is not part of the cluster right now.")
        return await self._ask(holder, address, run_id, attempt)

    async def _ask(self, holder: str, address: str, run_id: str, attempt: int | None) -> web.Response:
        url = f"http://{address}/v1/runs/{run_id}/log"
        parameters = {} if attempt is None else {"attempt": str(attempt)}
        timeout = aiohttp.ClientTimeout(total=PEER_TIMEOUT_S)
        try:
            # A session for each: logs are read by people, and a kept connection would need an owner that closes it.
            async with (
                aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
                session.get(
                    url, params=parameters, headers={FORWARDED_HEADER: self._node}, allow_redirects=False
                ) as answer,
            ):
                return await _pass_on(answer)
        except (TimeoutError, aiohttp.ClientError, ValueError) as fault:
            raise PeerUnreachable(f"The log is on node {holder}, which does not answer.") from fault


async def _pass_on(answer: aiohttp.ClientResponse) -> web.Response:
    """Another node's answer as ours: its body, its status, and those of its headers that belong to the log."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > PEER_BYTES_MAX:
            raise ValueError("more than a log can hold")
    kept = {name: answer.headers[name] for name in (ATTEMPT_HEADER, TRUNCATED_HEADER) if name in answer.headers}
    kept["Content-Type"] = answer.headers.get("Content-Type", "application/octet-stream")
    return web.Response(body=bytes(body), status=answer.status, headers=kept)


def _holder(run: Run, attempt: int | None) -> str | None:
    """The node that ran the attempt; the last attempt's without one. A running attempt is not among the kept ones."""
    if attempt is None:
        return run.attempts[-1].node if run.attempts else run.node
    return next((one.node for one in run.attempts if one.attempt == attempt), None)


def _text(log: RunLog) -> web.Response:
    headers = {ATTEMPT_HEADER: str(log.attempt), TRUNCATED_HEADER: "true" if log.truncated else "false"}
    return web.Response(body=log.output, content_type="text/plain", charset="utf-8", headers=headers)

"""A client of the API for Python programs, and what the `horae` command uses.

    async with Client("http://127.0.0.1:8101,http://127.0.0.1:8102") as client:
        job = await client.create_job({"name": "hello", "schedule": "@every 5s", "target": {"type": "noop"}})
        async for run in client.all_runs(job["job_id"]):
            print(run["state"], run["due_at"])

Answers are the API's JSON as plain values. Failures are `client_errors`: Refused carries the problem document, NoQuorum
and Unreachable say that no node could answer. Every write may be repeated: creations get an idempotency key when the
caller gives none, so a lost answer never makes two.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from httpapi.client_backfills import BackfillCalls
from httpapi.client_calendars import CalendarCalls
from httpapi.client_errors import BadAddress, ClientError, NoQuorum, Refused, Unreachable
from httpapi.log_events import Event, piece_of, read_events
from httpapi.transport import Transport, parse_addresses
from node.interface import LIST_LIMIT_MAX, Consistency, LogPiece, ResumeFrom

__all__ = ["BadAddress", "Client", "ClientError", "LogEvent", "NoQuorum", "Refused", "Unreachable"]

TIMEOUT_S = 30.0
"""Longer than the longest that a node takes, so that its answer, which knows more, comes first: a delete waits for the
log (10 s), for a barrier (5 s), and for those that hold claims of the job (12 s)."""

RESUMES_MAX = 5
RESUME_AFTER_S = 0.5
"""How often a broken stream is taken up again without anything having come, and how long after."""

Json = dict[str, Any]


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of a log that is followed. `piece`: the output of a `log` event."""

    name: str
    data: Json
    piece: LogPiece | None = None
    cut_bytes: int = 0
    """How much before the piece is not kept."""


class Client(CalendarCalls, BackfillCalls):
    """Calls any node of a cluster. `addresses`: URLs separated by commas, tried in turn; `timeout_s`: for each try.

    Every method may raise a ClientError."""

    def __init__(self, addresses: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._transport = Transport(parse_addresses(addresses), timeout_s=timeout_s)

    async def __aenter__(self) -> Client:
        await self._transport.open()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._transport.close()

    @property
    def address(self) -> str:
        """The base URL of the node that answered last."""
        return self._transport.address

    # --- jobs

    async def create_job(self, draft: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Create a job; answers job_id, next_run_at, version. The same key and draft again answer the first job."""
        headers = {}
        if idempotency_key is not None or draft.get("idempotency_key") is None:
            headers["Idempotency-Key"] = idempotency_key or _new_key()
        return await self._json("POST", "/v1/jobs", headers=headers, body=draft)

    async def job(self, job_id: str, *, consistency: Consistency | None = None) -> Json:
        return await self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}", query=_query(consistency=consistency))

    async def jobs(
        self,
        *,
        team: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        consistency: Consistency | None = None,
    ) -> Json:
        """One page: items and next_cursor."""
        query = _query(team=team, q=q, limit=limit, cursor=cursor, consistency=consistency)
        return await self._json("GET", "/v1/jobs", query=query)

    async def all_jobs(self, *, team: str | None = None, q: str | None = None) -> AsyncIterator[Json]:
        """Every job, page after page."""
        cursor: str | None = None
        while True:
            page = await self.jobs(team=team, q=q, limit=LIST_LIMIT_MAX, cursor=cursor)
            for job in page["items"]:
                yield job
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def update_job(self, job_id: str, draft: Mapping[str, Any], *, version: int | None = None) -> Json:
        """Replace the definition whole, if `version` is given only while the job has it; answers the job, and whether
        the change is `effective`: nothing that the definition before made starts any more."""
        return await self._change("PUT", job_id, version=version, body=draft)

    async def patch_job(self, job_id: str, patch: Mapping[str, Any], *, version: int | None = None) -> Json:
        """Change some fields (RFC 7396: a null takes one back to its default); answers as `update_job` does."""
        return await self._change("PATCH", job_id, version=version, body=patch)

    async def delete_job(self, job_id: str, *, version: int | None = None) -> Json:
        """Delete a job, if `version` is given only while it has that; answers job_id and `effective`."""
        answer = await self._transport.send("DELETE", _job_path(job_id), headers=_if_match(version))
        # Without a body, an earlier try of this call had deleted it: what came of that was not heard.
        return dict(msgspec.json.decode(answer.body)) if answer.body else {"job_id": job_id, "effective": False}

    async def pause_job(
        self,
        job_id: str,
        *,
        reason: str | None = None,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Stop a job's schedule; answers as `update_job` does."""
        key = {"Idempotency-Key": idempotency_key or _new_key()}
        return await self._change("POST", job_id, ":pause", version=version, headers=key, body={"reason": reason})

    async def resume_job(
        self,
        job_id: str,
        *,
        from_: ResumeFrom = "now",
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Let a paused job go on, from `now` or from where it was paused; answers as `update_job` does."""
        key = {"Idempotency-Key": idempotency_key or _new_key()}
        return await self._change("POST", job_id, ":resume", version=version, headers=key, body={"from": from_})

    async def _change(
        self,
        method: str,
        job_id: str,
        verb: str = "",
        *,
        version: int | None,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        sent = {**(headers or {}), **_if_match(version)}
        return await self._json(method, _job_path(job_id) + verb, headers=sent, body=body)

    async def run_job(
        self,
        job_id: str,
        *,
        args: Any = msgspec.UNSET,
        overlap_policy: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Run a job now; answers the run. `args` and `overlap_policy` take the place of the job's."""
        body = {} if args is msgspec.UNSET else {"args": args}
        body |= {} if overlap_policy is None else {"overlap_policy": overlap_policy}
        headers = {"Idempotency-Key": idempotency_key or _new_key()}
        return await self._json("POST", f"/v1/jobs/{quote(job_id, safe='')}:run", headers=headers, body=body)

    # --- runs

    async def runs(
        self,
        job_id: str,
        *,
        states: Sequence[str] = (),
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        consistency: Consistency | None = None,
    ) -> Json:
        """One page of a job's runs, newest first: items and next_cursor. `from_` and `to` are RFC 3339 times."""
        query = _query(limit=limit, cursor=cursor, consistency=consistency, to=to, state=",".join(states) or None)
        query += [("from", from_)] if from_ is not None else []
        return await self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}/runs", query=query)

    async def all_runs(
        self, job_id: str, *, states: Sequence[str] = (), from_: str | None = None, to: str | None = None
    ) -> AsyncIterator[Json]:
        """Every run of a job, newest first, page after page."""
        cursor: str | None = None
        while True:
            page = await self.runs(job_id, states=states, from_=from_, to=to, limit=LIST_LIMIT_MAX, cursor=cursor)
            for run in page["items"]:
                yield run
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def run(self, run_id: str, *, consistency: Consistency | None = None) -> Json:
        return await self._json("GET", f"/v1/runs/{quote(run_id, safe='')}", query=_query(consistency=consistency))

    async def dead_runs(
        self,
        *,
        team: str | None = None,
        job_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        consistency: Consistency | None = None,
    ) -> Json:
        """One page of dead runs, newest first: items and next_cursor."""
        query = _query(state="dead", team=team, job_id=job_id, limit=limit, cursor=cursor, consistency=consistency)
        return await self._json("GET", "/v1/runs", query=query)

    async def redrive_run(self, run_id: str) -> Json:
        """Try a dead run anew; answers the run."""
        return await self._json("POST", f"/v1/runs/{quote(run_id, safe='')}:redrive", body={})

    async def redrive_dead(self, *, team: str | None = None, job_id: str | None = None) -> Json:
        """Try the dead runs of a team or a job anew, a thousand at most: redriven, refused, remaining."""
        body = {name: value for name, value in (("team", team), ("job_id", job_id)) if value is not None}
        return await self._json("POST", "/v1/runs:redrive", body=body)

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> Json:
        """End a run for good; answers the run, and with `effective` whether its attempt is known to be gone."""
        body = {} if reason is None else {"reason": reason}
        return await self._json("POST", f"/v1/runs/{quote(run_id, safe='')}:cancel", body=body)

    async def follow_log(self, run_id: str, *, attempt: int | None = None) -> AsyncIterator[LogEvent]:
        """What a run puts out, from the beginning and then as it comes, until the attempt is over, or without a number
        the run: events `attempt` (one begins), `log` (with a piece of output), `notice` (what keeps the log away) and
        `end`. A broken connection is resumed where it was, at the next address."""
        path, query = f"/v1/runs/{quote(run_id, safe='')}/log", _query(attempt=attempt, follow=1)
        last_id: str | None = None
        left = RESUMES_MAX
        while True:
            headers = {} if last_id is None else {"Last-Event-ID": last_id}
            try:
                async for event in read_events(self._transport.stream(path, query=query, headers=headers)):
                    if event is None:
                        continue
                    last_id, left = event.id or last_id, RESUMES_MAX
                    yield _log_event(event)
                    if event.name == "end":
                        return
                failure: NoQuorum | Unreachable = Unreachable(
                    [f"{self.address}: the stream ended too early"], definite=True
                )
            except ValueError:
                raise Unreachable([f"{self.address}: what answers there is not Horae"], definite=True) from None
            except (NoQuorum, Unreachable) as broken:
                failure = broken
            left -= 1
            if left == 0:
                raise failure
            await asyncio.sleep(RESUME_AFTER_S)

    async def run_log(self, run_id: str, *, attempt: int | None = None) -> bytes:
        """The kept output of one attempt (the last without a number), from whichever node has it."""
        answer = await self._transport.send(
            "GET", f"/v1/runs/{quote(run_id, safe='')}/log", query=_query(attempt=attempt)
        )
        return answer.body

    async def complete_run(
        self,
        run_id: str,
        *,
        fence_token: int,
        outcome: str,
        detail: str | None = None,
        output: str | None = None,
    ) -> Json:
        """Report the end ('succeeded' or 'failed') of an attempt, as its target; answers the run. `output` becomes the
        attempt's log. Refused with 409 when the attempt of that token is over."""
        body: Json = {"fence_token": fence_token, "outcome": outcome}
        body |= {name: text for name, text in (("detail", detail), ("output", output)) if text is not None}
        return await self._json("POST", f"/v1/runs/{quote(run_id, safe='')}:complete", body=body)

    async def heartbeat_run(self, run_id: str, *, fence_token: int, progress: str | None = None) -> Json:
        """Say, as its target, that an attempt goes on; answers run_id and lease_until. Refused with 409 when the
        attempt is over."""
        body = {"fence_token": fence_token} | ({} if progress is None else {"progress": progress})
        return await self._json("POST", f"/v1/runs/{quote(run_id, safe='')}:heartbeat", body=body)

    # --- teams

    async def team(self, team: str, *, consistency: Consistency | None = None) -> Json:
        return await self._json("GET", f"/v1/teams/{quote(team, safe='')}", query=_query(consistency=consistency))

    async def teams(
        self, *, limit: int | None = None, cursor: str | None = None, consistency: Consistency | None = None
    ) -> Json:
        """One page: items and next_cursor."""
        query = _query(limit=limit, cursor=cursor, consistency=consistency)
        return await self._json("GET", "/v1/teams", query=query)

    async def all_teams(self) -> AsyncIterator[Json]:
        """Every team that has settings, jobs or runs under way, page after page."""
        cursor: str | None = None
        while True:
            page = await self.teams(limit=LIST_LIMIT_MAX, cursor=cursor)
            for team in page["items"]:
                yield team
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def put_team(self, team: str, settings: Mapping[str, Any], *, version: int | None = None) -> Json:
        """Set what a team may use; answers the team. With `version`, only if it still has that one (0: none yet)."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return await self._json("PUT", f"/v1/teams/{quote(team, safe='')}", headers=headers, body=settings)

    async def delete_team(self, team: str, *, version: int | None = None) -> None:
        """Give a team the defaults again; with `version`, only if its settings still are that one."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        await self._transport.send("DELETE", f"/v1/teams/{quote(team, safe='')}", headers=headers)

    # --- the cluster

    async def cluster(self, *, consistency: Consistency | None = None) -> Json:
        return await self._json("GET", "/v1/cluster", query=_query(consistency=consistency))

    async def transfer_leadership(self, *, to: str | None = None) -> Json:
        """Hand the leadership to that node, or to the one that has most of the log; answers the leader after it."""
        return await self._json("POST", "/v1/cluster:transfer", body={} if to is None else {"to": to})

    async def preview(
        self,
        *,
        schedule: Sequence[str] = (),
        tz: str | None = None,
        from_: str | None = None,
        n: int | None = None,
        job_id: str | None = None,
    ) -> Json:
        """The next `n` ticks of expressions, or of a job's, and what they mean in words."""
        query = [("schedule", expression) for expression in schedule] + _query(tz=tz, n=n, job_id=job_id)
        query += [("from", from_)] if from_ is not None else []
        return await self._json("GET", "/v1/schedules:preview", query=query)

    async def ready(self) -> None:
        """Returns when a node is ready to work; raises NoQuorum with its reason, or Unreachable, when none is."""
        await self._transport.send("GET", "/readyz")

    async def _json(self, method: str, path: str, **request: Any) -> Json:
        answer = await self._transport.send(method, path, **request)
        try:
            body = msgspec.json.decode(answer.body)
        except msgspec.DecodeError:
            body = None
        if not isinstance(body, dict):
            raise Unreachable([f"{self.address}: what answers there is not Horae"], definite=method == "GET")
        return body


def _query(**parameters: str | int | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in parameters.items() if value is not None]


def _job_path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _log_event(event: Event) -> LogEvent:
    """Raises ValueError for what is no event of a log."""
    if not isinstance(event.data, dict):
        raise ValueError("an event without values")
    piece = piece_of(event) if event.name == "log" else None
    cut_bytes = event.data.get("cut_bytes", 0)
    return LogEvent(name=event.name, data=event.data, piece=piece, cut_bytes=cut_bytes)


def _new_key() -> str:
    return secrets.token_hex(16)

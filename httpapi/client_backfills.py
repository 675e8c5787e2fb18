"""The client's calls about backfills."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]


class BackfillCalls:
    """A part of Client; each may raise a ClientError. Times are RFC 3339 with an offset."""

    async def _json(self, method: str, path: str, **request: Any) -> Json:
        raise NotImplementedError

    async def plan_backfill(self, job_id: str, *, from_: str, to: str) -> Json:
        """What a backfill would run: count, first_at, last_at."""
        body = {"from": from_, "to": to, "dry_run": True}
        return await self._json("POST", f"/v1/jobs/{quote(job_id, safe='')}:backfill", body=body)

    async def backfill_job(
        self,
        job_id: str,
        *,
        from_: str,
        to: str,
        args: Any = None,
        overlap_policy: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Run a job for its ticks from `from_` to before `to`; answers the backfill, which goes on by itself."""
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        body = {"from": from_, "to": to, "args": args, "overlap_policy": overlap_policy}
        return await self._json("POST", f"/v1/jobs/{quote(job_id, safe='')}:backfill", headers=headers, body=body)

    async def backfills(self, job_id: str, *, limit: int | None = None, cursor: str | None = None) -> Json:
        """One page of a job's backfills, oldest first: items and next_cursor."""
        query = [(key, str(value)) for key, value in (("limit", limit), ("cursor", cursor)) if value is not None]
        return await self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}/backfills", query=query)

    async def cancel_backfill(self, backfill_id: str, *, reason: str | None = None) -> Json:
        """Make no further runs of a backfill, and end those that are not over."""
        path = f"/v1/backfills/{quote(backfill_id, safe='')}:cancel"
        return await self._json("POST", path, body={"reason": reason})

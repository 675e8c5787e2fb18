"""Opaque places in a list: they name the last item that was shown, so they stay valid while rows come and go.

A place in one list means nothing in another, where it would show a wrong page without a word. So a cursor carries a
check over the list that it is of, which also finds one that was cut short on its way. It guards against slips, not
against malice: a forged cursor reaches nothing that a list without one does not show.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b

from node.interface import CURSOR_LENGTH_MAX, FieldError, Malformed

CHECK_BYTES = 6
JOBS = "jobs"
TEAMS = "teams"
CALENDARS = "calendars"


def runs_of(job_id: str) -> str:
    """The name of the list of a job's runs."""
    return f"runs of {job_id}"


def backfills_of(job_id: str) -> str:
    """The name of the list of a job's backfills."""
    return f"backfills of {job_id}"


def dead_of(team: str | None) -> str:
    """The name of the list of a team's dead runs, or of all."""
    return "dead runs" if team is None else f"dead runs of {team}"


def encode_cursor(listing: str, last: str) -> str:
    """The place after the item `last` in the list of this name."""
    return base64.urlsafe_b64encode(_check(listing, last) + last.encode()).decode().rstrip("=")


def decode_cursor(listing: str, cursor: str | None) -> str | None:
    """The last item shown; None without a cursor. Raises Malformed."""
    if cursor is None:
        return None
    try:
        if len(cursor) > CURSOR_LENGTH_MAX:
            raise ValueError
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        last = raw[CHECK_BYTES:].decode()
        if raw[:CHECK_BYTES] != _check(listing, last):
            raise ValueError
        return last
    except (binascii.Error, ValueError):
        error = FieldError(path="cursor", message="is not one that this list gave out; begin without one")
        raise Malformed("The cursor is not valid.", errors=[error]) from None


def _check(listing: str, last: str) -> bytes:
    return blake2b(f"{listing}\0{last}".encode(), digest_size=CHECK_BYTES).digest()

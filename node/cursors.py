"""Opaque places in a list: they name the last item that was shown, so they stay valid while rows come and go."""

from __future__ import annotations

import base64
import binascii

from node.interface import FieldError, Malformed

PREFIX = b"1:"
LENGTH_MAX = 512


def encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(PREFIX + last.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> str | None:
    """The last item shown; None without a cursor. Raises Malformed."""
    if cursor is None:
        return None
    try:
        if len(cursor) > LENGTH_MAX:
            raise ValueError
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if not raw.startswith(PREFIX):
            raise ValueError
        return raw.removeprefix(PREFIX).decode()
    except (binascii.Error, ValueError):
        error = FieldError(path="cursor", message="is not one that this API gave out; begin without one")
        raise Malformed("The cursor is not valid.", errors=[error]) from None

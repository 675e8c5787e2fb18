"""Signatures of requests, as version 1 of the Standard Webhooks specification has them (standardwebhooks.com): a target
that shares the secret can tell who called it, with what, and when.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
"""What the specification asks of a key."""
PLAIN_CHARS_MIN, PLAIN_CHARS_MAX = 16, 256
HEADER_PREFIX = "webhook-"
MASK = "whsec_********"
"""What is shown in the place of a secret."""
_FORMS = f"write {PREFIX} and the base64 of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random bytes"


def signing_key(secret: str) -> bytes:
    """The key that a secret stands for: the bytes behind the prefix, or without it the text itself. Raises ValueError,
    its message saying what to write instead and nothing of the secret."""
    if secret == MASK:
        raise ValueError("is what is shown in the place of a secret; write the secret itself")
    if not secret.startswith(PREFIX):
        return _plain_key(secret)
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not base64 after {PREFIX}; {_FORMS}") from None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"has a key of {len(key)} bytes; {_FORMS}")
    return key


def _plain_key(secret: str) -> bytes:
    if not PLAIN_CHARS_MIN <= len(secret) <= PLAIN_CHARS_MAX:
        raise ValueError(f"must have {PLAIN_CHARS_MIN} to {PLAIN_CHARS_MAX} characters; better {_FORMS}")
    return secret.encode()


def signature_headers(key: bytes, *, message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The three headers of a request that is sent at this unix time. The id is the same for every attempt, so that a
    receiver can drop repeats."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": f"v1,{signature}",
    }

"""Why an HTTP attempt failed, in one line for a person.

Never a traceback, and never the URL as it is: its query, its user part or a header may carry a secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ssl import SSLCertVerificationError, SSLError

import aiohttp
from yarl import URL

from executor.egress import AddressRefused
from executor.http_redirect import RedirectRefused
from executor.http_url import plain_url
from executor.text import one_line

_RETRY_AFTER_STATUSES = frozenset({429, 503})


def describe_status(response: aiohttp.ClientResponse) -> str:
    """What a status that is not a success says, and for a redirect what to do about it."""
    status = f"HTTP {response.status} {response.reason or ''}".strip()
    location = response.headers.get("Location")
    if 300 <= response.status < 400 and location is not None:
        where = _where(response.url, location)
        return one_line(f"{status} to {where}: not followed; let the job's url name the final address")
    return one_line(status)


def describe_error(error: BaseException) -> str:
    """What went wrong before there was a complete answer."""
    return one_line(_describe(error))


def retry_after_s(status: int, headers: Mapping[str, str]) -> float | None:
    """How long the target asks to be left alone (429 and 503 only), maybe for ever; None when it does not say.

    A date counts from the target's own Date header, so that no clock of ours, right or wrong, takes part."""
    text = headers.get("Retry-After", "").strip()
    if status not in _RETRY_AFTER_STATUSES or not text:
        return None
    wait_s = float(text) if text.isascii() and text.isdigit() else _seconds_between(headers.get("Date"), text)
    return None if wait_s is None else max(wait_s, 0.0)


def _seconds_between(earlier: str | None, later: str) -> float | None:
    if earlier is None:
        return None
    try:
        return (_http_date(later) - _http_date(earlier)).total_seconds()
    except (ValueError, OverflowError):
        return None


def _http_date(text: str) -> datetime:
    moment = parsedate_to_datetime(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _where(base: URL, location: str) -> str:
    try:
        return plain_url(base.join(URL(location)))
    except ValueError:
        return "an invalid address"


def _describe(error: BaseException) -> str:
    match error:
        case RedirectRefused():
            return str(error)
        case aiohttp.ClientConnectorDNSError():
            return f"cannot resolve {error.host}: {_os_reason(error.os_error)}"
        case aiohttp.ClientConnectorCertificateError():
            return f"the TLS certificate of {error.host}:{error.port} is not trusted: {_certificate_reason(error)}"
        case aiohttp.ClientConnectorSSLError():
            return f"the TLS handshake with {error.host}:{error.port} failed: {_os_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {_os_reason(error.os_error)}"
        case aiohttp.ServerTimeoutError():
            return "cannot connect: the host does not answer"
        case aiohttp.ClientPayloadError():
            return "the answer ended before it was complete"
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP"
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return "the target's url is not valid"
        case aiohttp.ClientError():
            return "the connection was closed without an answer"
        case _:
            return f"the attempt broke off: {type(error).__name__}"


def _os_reason(error: OSError) -> str:
    if isinstance(error, AddressRefused):
        return str(error)
    if isinstance(error, SSLError):
        return error.reason or str(error)
    if error.errno is not None and error.errno > 0:  # a look-up's errors are negative, and their text is the better one
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _certificate_reason(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return cause.verify_message if isinstance(cause, SSLCertVerificationError) else str(cause)

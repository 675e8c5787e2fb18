"""What a request can be refused with: one tree; the docstring is the default message. Users take them from
interface.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """A field that was refused: `path` as in the request ('target.url'); `message`: what is wrong, what to write."""

    path: str
    message: str


class HoraeError(Exception):
    """The request could not be carried out."""

    status = 500
    definite = True
    """True: nothing changed, nor will. False: it may have happened; repeating the same request is safe."""

    def __init__(self, detail: str | None = None, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail or type(self).__doc__)
        self.errors = tuple(errors)


class Malformed(HoraeError):
    """The request is not well formed."""

    status = 400


class Invalid(HoraeError):
    """Some fields have values that cannot be accepted."""

    status = 422


class NotFound(HoraeError):
    """There is no such thing."""

    status = 404


class LogElsewhere(NotFound):
    """Another node ran the attempt, and has its log."""

    def __init__(self, detail: str, *, node: str) -> None:
        super().__init__(detail)
        self.node = node


class Conflict(HoraeError):
    """The request contradicts what is there."""

    status = 409


class Fenced(Conflict):
    """The attempt of this fencing token is over, or has not begun: what is said of it does not count."""


class PreconditionFailed(HoraeError):
    """The object has changed since the version that If-Match names."""

    status = 412


class TooLarge(HoraeError):
    """The request is larger than its limit."""

    status = 413


class Overloaded(HoraeError):
    """Too many requests are waiting; try again in a moment."""

    status = 429


class Unavailable(HoraeError):
    """This node cannot reach a majority of the cluster; nothing was done."""

    status = 503


class DiskFull(HoraeError):
    """The disk is nearly full; nothing was done. Deleting still works, and so does another node that has room."""

    status = 507


class OutcomeUnknown(HoraeError):
    """No answer in time: the change may have happened or may yet; repeat the same request to find out."""

    status = 503
    definite = False

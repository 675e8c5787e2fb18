"""What a client of the API can be told: a refusal with its problem document, or silence.

`definite` says what the server's `outcome` says: True, nothing changed, nor will; False, it may have happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """A call of the API did not succeed."""

    definite = True


class BadAddress(ClientError):
    """An address of the API is none: write it like http://127.0.0.1:8101."""


class Refused(ClientError):
    """A node answered with an error. `problem` is its problem document (RFC 9457), `errors` its bad fields."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or "The request was refused."))
        self.problem = problem
        self.status = int(problem.get("status", 0))
        self.errors: Sequence[Mapping[str, Any]] = problem.get("errors", ())
        self.definite = problem.get("outcome", "definite") == "definite"


class NoQuorum(Refused):
    """Nodes answered, but none of them could reach a majority in time (503)."""


class Unreachable(ClientError):
    """No node answered. `tries` has one sentence for each address."""

    def __init__(self, tries: Sequence[str], *, definite: bool) -> None:
        super().__init__("; ".join(tries))
        self.tries = tuple(tries)
        self.definite = definite

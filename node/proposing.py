"""A change on its way through the log: proposed once, and honest about whether it may have happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from node.clock import Clock
from node.interface import (
    Conflict,
    DiskFull,
    FieldError,
    HoraeError,
    Invalid,
    OutcomeUnknown,
    Overloaded,
    TooLarge,
    Unavailable,
)
from node.reads import Reads
from raftlog import errors as log_errors
from raftlog.interface import Lane, Log
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import AnyReply, Command

WRITE_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """What writes take from outside."""

    clock: Clock
    make_id: Callable[[], str]
    random: Callable[[], float]
    allow_link_local: bool = False


class Proposing:
    """What every writing part of the scheduler stands on."""

    def __init__(self, *, log: Log, reads: Reads, sources: Sources) -> None:
        self._log = log
        self._reads = reads
        self._sources = sources

    def make_id(self) -> str:
        """An identifier that no other node makes."""
        return self._sources.make_id()

    def _lane_of_what_makes_room(self) -> Lane:
        """While clients are refused for want of room on the disks, what frees some is the node's own work."""
        return Lane.WORK if self._log.status.refuses_clients else Lane.CLIENT

    async def propose(self, command: Command, *, lane: Lane = Lane.CLIENT) -> AnyReply:
        try:
            data = encode_command(command)
            return decode_reply(await self._log.propose(data, lane=lane, timeout_s=WRITE_TIMEOUT_S))
        except log_errors.LogError as error:
            raise _translated(error) from error


def other_body() -> Conflict:
    return Conflict("The idempotency key was used before with another body; use a new key for a new request.")


def unknown_calendar(reply: AnyReply) -> Invalid:
    message = f"there is no calendar {reply.detail}; PUT /v1/calendars/{reply.detail} makes it"
    return Invalid(errors=[FieldError(path="exclude_calendars", message=message)])


def expect_ok(reply: AnyReply) -> None:
    """Admission lets nothing through that the state machine calls malformed; if it does, say what it said."""
    if reply.code == "malformed":
        raise Invalid(reply.detail)
    if reply.code == "clock_off":
        raise Unavailable("Nothing was done: the clock of this node is far from the others', which may be starting.")
    if reply.code != "ok":
        raise HoraeError(f"The cluster refused the change: {reply.code}.")


def _translated(error: log_errors.LogError) -> HoraeError:
    match error:
        case log_errors.OutcomeUnknown():
            return OutcomeUnknown()
        case log_errors.CommandTooLarge():
            return TooLarge()
        case log_errors.LogOverloaded():
            return Overloaded()
        case log_errors.DiskFull():
            return DiskFull(f"Nothing was done: {error}. Deleting still works, and so does a node that has room.")
        case _:
            return Unavailable()

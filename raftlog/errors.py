"""The errors of raftlog: each is definite (nothing happened, nor will) or indefinite (it may have, or may yet)."""

from __future__ import annotations


class LogError(Exception):
    """The replicated log could not do what was asked."""

    definite = True


class CommandTooLarge(LogError):
    """A command is larger than `command_bytes_max`."""


class LogOverloaded(LogError):
    """Too many proposals are waiting (`proposals_waiting_max`)."""


class DiskFull(LogError):
    """There is too little room on the disk of this node, or on the disks of too many nodes."""


class LogClosed(LogError):
    """The log is shutting down or its process has died; the command was not sent."""


class NoQuorum(LogError):
    """No majority confirmed the read barrier in time; nothing was read."""


class OutcomeUnknown(LogError):
    """No result in time: the command may have been committed, or may be yet."""

    definite = False


class LogRefused(LogError):
    """The log does not start: data of another cluster or node, an unknown format, another version of the library."""


class MessageRefused(LogError):
    """A peer's message that no member of this version sends. Nothing of it was used; close its connection."""


class LogDamaged(LogError):
    """What was read from the disk is not what was written: the process must end."""

    definite = False


class LogBroken(LogError):
    """A broken invariant, or an error in the middle of a tick: the process must end, the tick is not committed."""

    definite = False

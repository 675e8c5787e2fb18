"""The errors of raftlog: each is definite (nothing happened, nor will) or indefinite (it may have, or may yet)."""

from __future__ import annotations


class LogError(Exception):
    """The replicated log could not do what was asked."""

    definite = True


class CommandTooLarge(LogError):
    """A command is larger than `command_bytes_max`."""


class LogOverloaded(LogError):
    """Too many proposals are waiting (`proposals_waiting_max`)."""


class LogClosed(LogError):
    """The log is shutting down or its process has died; the command was not sent."""


class NoQuorum(LogError):
    """No majority confirmed the read barrier in time; nothing was read."""


class OutcomeUnknown(LogError):
    """No result in time: the command may have been committed, or may be yet."""

    definite = False

"""Logs as they are handed out. Users take them from interface.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLog:
    """The kept output of one attempt. A line in it says where something is missing."""

    attempt: int
    output: bytes
    cut_bytes: int = 0
    """How much of what was put out is not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPiece:
    """A part of an attempt's output; `offset` is where it begins in all that the attempt put out. A piece that begins
    later than the one before it ends says that what lies between is not kept."""

    offset: int
    data: bytes

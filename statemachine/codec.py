"""Bytes of commands, replies, events and records: one format-version byte, then msgpack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from statemachine.commands import AnyCommand, AnyEvent, AnyReply, Command, Reply
from statemachine.history_records import Ending, JobStats, Notification
from statemachine.policy_records import Backfill, Calendar
from statemachine.records import (
    FORMAT_VERSION,
    BucketOwner,
    Counters,
    DueEntry,
    Job,
    Run,
    Session,
    TargetScore,
    Team,
    TimerEntry,
)
from statemachine.repeat_records import IdempotencyEntry, Proposer

T = TypeVar("T")

_VERSION = bytes((FORMAT_VERSION,))
_encode = msgspec.msgpack.Encoder().encode


class Undecodable(ValueError):
    """The bytes are not of a known format version, or not what they should be; the text says where."""


def encode(value: Any) -> bytes:
    """Any record, command, reply or event as bytes."""
    return _VERSION + _encode(value)


def decoder_of(kind: Any) -> Callable[[bytes], Any]:
    """A function from bytes to a value of the kind; raises Undecodable."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decode_checked(data: bytes) -> Any:
        if data[:1] != _VERSION:
            raise Undecodable(f"format version {data[:1].hex() or 'missing'}, not {FORMAT_VERSION}")
        try:
            return decode(data[1:])
        except msgspec.DecodeError as error:
            raise Undecodable(str(error)) from error

    return decode_checked


def encode_command(command: Command) -> bytes:
    """A command as the log carries it."""
    return _VERSION + _encode(command)


def encode_reply(reply: Reply) -> bytes:
    return _VERSION + _encode(reply)


def encode_event(event: AnyEvent) -> bytes:
    return _VERSION + _encode(event)


decode_command: Callable[[bytes], AnyCommand] = decoder_of(AnyCommand)
decode_reply: Callable[[bytes], AnyReply] = decoder_of(AnyReply)
decode_event: Callable[[bytes], AnyEvent] = decoder_of(AnyEvent)

decode_job: Callable[[bytes], Job] = decoder_of(Job)
decode_run: Callable[[bytes], Run] = decoder_of(Run)
decode_session: Callable[[bytes], Session] = decoder_of(Session)
decode_target_score: Callable[[bytes], TargetScore] = decoder_of(TargetScore)
decode_slow_held: Callable[[bytes], dict[int, int]] = decoder_of(dict[int, int])
decode_team: Callable[[bytes], Team] = decoder_of(Team)
decode_backfill: Callable[[bytes], Backfill] = decoder_of(Backfill)
decode_calendar: Callable[[bytes], Calendar] = decoder_of(Calendar)
decode_bucket: Callable[[bytes], BucketOwner] = decoder_of(BucketOwner)
decode_due: Callable[[bytes], DueEntry] = decoder_of(DueEntry)
decode_timer: Callable[[bytes], TimerEntry] = decoder_of(TimerEntry)
decode_counters: Callable[[bytes], Counters] = decoder_of(Counters)
decode_idempotency: Callable[[bytes], IdempotencyEntry] = decoder_of(IdempotencyEntry)
decode_proposer: Callable[[bytes], Proposer] = decoder_of(Proposer)
decode_ending: Callable[[bytes], Ending] = decoder_of(Ending)
decode_stats: Callable[[bytes], JobStats] = decoder_of(JobStats)
decode_notification: Callable[[bytes], Notification] = decoder_of(Notification)
decode_replies: Callable[[bytes], Sequence[bytes]] = decoder_of(tuple[bytes, ...])
decode_depth: Callable[[bytes], list[int]] = decoder_of(list[int])

"""The outbox: notifications that are owed, replicated, so that no crash loses one and a new leader goes on with them.

The leader's node delivers them and reports each try; what was delivered, or was tried too often, leaves. It is bounded
as a whole and by team: a receiver that is dead fills its own team's share.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from msgspec.structs import replace

from statemachine.codec import decode_notification, encode
from statemachine.commands import PlainReply, ReportNotification
from statemachine.history_records import Notification
from statemachine.keys import U64, outbox_key
from statemachine.limits import (
    NOTIFICATION_BACK_OFF_MAX_MS,
    NOTIFICATION_BACK_OFF_MS,
    NOTIFICATION_TRIES_MAX,
    OUTBOX_MAX,
    OUTBOX_TEAM_MAX,
)
from statemachine.tables import OUTBOX_KEY, Tables
from statemachine.work import Work

_OUTBOX = Struct(">QQ")


def owe(work: Work, notification: Notification) -> bool:
    """Let a notification leave as soon as possible, under the next number; False if there is no room for it."""
    number, pending = read_outbox(work.transaction, work.tables)
    team_pending = _pending_of(work, notification.team)
    if pending >= OUTBOX_MAX or team_pending >= OUTBOX_TEAM_MAX:
        work.count("notifications_failed")
        return False
    _put(work, replace(notification, number=number, next_ms=work.now_ms))
    _store_counts(work, notification.team, number + 1, 1)
    return True


def report_notification(work: Work, command: ReportNotification) -> PlainReply:
    """A try to deliver has ended: the notification leaves, or is tried again later."""
    key = outbox_key(command.at_ms, command.number)
    value = work.transaction.get(key, db=work.tables.outbox)
    if value is None:
        return PlainReply(code="unknown_notification")
    notification = decode_notification(value)
    work.transaction.delete(key, db=work.tables.outbox)
    tries = notification.tries + 1
    if command.error is None or tries == NOTIFICATION_TRIES_MAX:
        work.count("notifications_sent" if command.error is None else "notifications_failed")
        _store_counts(work, notification.team, read_outbox(work.transaction, work.tables)[0], -1)
    else:
        next_ms = work.now_ms + back_off_ms(tries)
        _put(work, replace(notification, tries=tries, next_ms=next_ms, error=command.error))
    return PlainReply()


def back_off_ms(tries: int) -> int:
    """From the end of a try to the next."""
    return min(NOTIFICATION_BACK_OFF_MS << (tries - 1), NOTIFICATION_BACK_OFF_MAX_MS)


def read_outbox(transaction: Any, tables: Tables) -> tuple[int, int]:
    """(the next number, how many notifications are owed)."""
    value = transaction.get(OUTBOX_KEY, db=tables.meta)
    if value is None:
        return 0, 0
    number, pending = _OUTBOX.unpack(value)
    return int(number), int(pending)


def _put(work: Work, notification: Notification) -> None:
    key = outbox_key(notification.next_ms, notification.number)
    work.transaction.put(key, encode(notification), db=work.tables.outbox)


def _pending_of(work: Work, team: str) -> int:
    value = work.transaction.get(team.encode(), db=work.tables.outbox_counts)
    return 0 if value is None else int(U64.unpack(value)[0])


def _store_counts(work: Work, team: str, next_number: int, change: int) -> None:
    _, pending = read_outbox(work.transaction, work.tables)
    work.transaction.put(OUTBOX_KEY, _OUTBOX.pack(next_number, pending + change), db=work.tables.meta)
    count = _pending_of(work, team) + change
    if count:
        work.transaction.put(team.encode(), U64.pack(count), db=work.tables.outbox_counts)
    else:
        work.transaction.delete(team.encode(), db=work.tables.outbox_counts)

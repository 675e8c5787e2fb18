"""Sessions: a node's lease, what it offers, and how its claims come back when it ends.

A session ends once, by ExpireSession or by a newer incarnation of its node. From then on it stands in `ended_sessions`
until a slice of ExpireSession finds no claim left: whoever leads finds the unfinished work there.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from statemachine.aging import age
from statemachine.attempts import lose
from statemachine.commands import (
    REAP_SLICE_MAX,
    ExpireSession,
    OpenSession,
    PlainReply,
    RenewSession,
    Reply,
    SessionEnded,
    SessionRenewed,
    SessionReply,
    SuspectSession,
)
from statemachine.keys import session_prefix
from statemachine.records import Session
from statemachine.settling import settle
from statemachine.work import EVERY_NODE, Seat, Work


def open_session(work: Work, command: OpenSession) -> Reply:
    """Begin a node's newer session; an older one that still lives ends at once."""
    seat = work.seats.get(command.node)
    if seat is not None:
        if command.incarnation <= seat.session.incarnation:
            return PlainReply(code="stale_incarnation", detail=f"incarnation {seat.session.incarnation} was opened")
        if seat.session.live:
            _end(work, seat)
    work.open_seat(_session_of(command))
    _announce(work, command, 0)
    return SessionReply()


def renew_session(work: Work, command: RenewSession) -> Reply:
    """Renew a live session. A repeat of the last renewal is granted; an older one was overtaken."""
    seat = work.seats.get(command.node)
    if seat is not None and command.incarnation < seat.session.incarnation:
        return PlainReply(code="stale_incarnation")
    if seat is None or command.incarnation != seat.session.incarnation or not seat.session.live:
        return PlainReply(code="unknown_session")
    if command.renewal < seat.session.renewal:
        return PlainReply(code="renewed")
    has_company = any(other is not seat and other.session.live for other in work.seats.values())
    seat.session = msgspec.structs.replace(
        seat.session,
        renewal=command.renewal,
        alone=0 if has_company else seat.session.alone + command.renewal - seat.session.renewal,
        draining=command.draining,
        applied_index=command.applied_index,
        running=command.running,
        suspect=False,
    )
    seat.wall_ms = command.now_ms
    work.reread_clocks()
    settle(work)
    age(work)
    _announce(work, command, command.renewal)
    return SessionReply()


def suspect_session(work: Work, command: SuspectSession) -> Reply:
    """Give a session no further claims until its next renewal."""
    seat = work.seats.get(command.node)
    if seat is None or command.incarnation != seat.session.incarnation or not seat.session.live:
        return PlainReply(code="unknown_session")
    if command.renewal < seat.session.renewal:
        return PlainReply(code="renewed")
    seat.session = msgspec.structs.replace(seat.session, suspect=True)
    return SessionReply()


def expire_session(work: Work, command: ExpireSession) -> Reply:
    """End a session, and give back a slice of its claims; also for one that has ended before."""
    seat = work.seats.get(command.node)
    if seat is None or command.incarnation > seat.session.incarnation:
        return PlainReply(code="unknown_session")
    if command.incarnation == seat.session.incarnation and seat.session.live:
        if command.renewal < seat.session.renewal:
            return PlainReply(code="renewed")
        if not seat.session.draining:
            work.count("sessions_expired")
        _end(work, seat)
    return SessionReply(remaining=_reap(work, command.node, command.incarnation))


def _end(work: Work, seat: Seat) -> None:
    session = seat.session
    seat.session = msgspec.structs.replace(session, live=False)
    work.reread_clocks()
    if seat.held_due or seat.held_ahead:
        key = session_prefix(session.node, session.incarnation)
        work.transaction.put(key, b"", db=work.tables.ended_sessions)
    work.emit(EVERY_NODE, SessionEnded(node=session.node, incarnation=session.incarnation))


def _reap(work: Work, node: str, incarnation: int) -> bool:
    """Take back the next claims of an ended session; whether there are more."""
    prefix = session_prefix(node, incarnation)
    if work.transaction.get(prefix, db=work.tables.ended_sessions) is None:
        return False
    run_ids = _claimed_run_ids(work, prefix)
    for run_id in run_ids[:REAP_SLICE_MAX]:
        run = work.run(run_id)
        assert run is not None, "a claim must have its run"
        lose(work, run)
    if len(run_ids) > REAP_SLICE_MAX:
        return True
    work.transaction.delete(prefix, db=work.tables.ended_sessions)
    return False


def _claimed_run_ids(work: Work, prefix: bytes) -> list[str]:
    """The session's first claims, one more than a slice. They are listed before any is moved."""
    cursor = work.transaction.cursor(db=work.tables.claims)
    if not cursor.set_range(prefix):
        return []
    keys = islice(cursor.iternext(keys=True, values=False), REAP_SLICE_MAX + 1)
    return [key[len(prefix) :].decode() for key in keys if key.startswith(prefix)]


def _announce(work: Work, command: OpenSession | RenewSession, renewal: int) -> None:
    renewed = SessionRenewed(
        node=command.node, incarnation=command.incarnation, renewal=renewal, wall_ms=command.now_ms
    )
    work.emit(EVERY_NODE, renewed)


def _session_of(command: OpenSession) -> Session:
    return Session(
        node=command.node,
        incarnation=command.incarnation,
        http=command.http,
        raft=command.raft,
        slots=command.slots,
        ahead=command.ahead,
        wall_ms=command.now_ms,
        opened_ms=command.now_ms,
        version=command.version,
        tzdata=command.tzdata,
        kind_slots=command.kind_slots,
        tags=command.tags,
        takes_buckets=command.takes_buckets,
    )

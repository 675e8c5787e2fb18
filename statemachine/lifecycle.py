"""How a run comes to be and changes: the only place that writes one.

A run that is not final stands in exactly one place (`waiting`, `parked`, `claims` or `timers`), which is where the
next mover finds it: a running one among the claims, or among the timers once its target has taken it over. Entering
and leaving a state moves it between those places, so no caller can forget.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from statemachine.codec import encode
from statemachine.endings import note_birth, note_change
from statemachine.keys import (
    LANE_SLOW,
    SEPARATOR,
    U64,
    bucket_of,
    dead_key,
    due_key,
    parked_key,
    parked_prefix,
    parse_run_id,
    session_prefix,
    waiting_key,
)
from statemachine.lanes import waiting_fields
from statemachine.records import FINAL_STATES, Run, RunKind, RunState, TimerEntry
from statemachine.transitions import BIRTHS, TRANSITIONS, Move
from statemachine.work import Work

UNCLAIMED: dict[str, Any] = {
    "node": None,
    "session": None,
    "ahead": False,
    "claimed_ms": None,
    "started_ms": None,
}
"""The fields of a run that nobody holds any more: its next claim sets them anew."""
_TIMERS: dict[RunState, Literal["release", "retry", "lease"]] = {
    RunState.SCHEDULED: "release",
    RunState.RETRYING: "retry",
    RunState.RUNNING: "lease",
}
"""What the timer of a run in each of these states is for."""


CATCHING_UP = b"c"
"""The value in `active_by_job` of a run that makes a missed tick good."""


def create(work: Work, run: Run) -> Run:
    """Let a run begin, in one of the states that it may begin in."""
    assert run.state in BIRTHS
    if run.state is RunState.QUEUED and not run.lane:
        run = msgspec.structs.replace(run, **waiting_fields(work, run))
    _enter(work, run)
    _set_deadline(work, run, None, deadline_ms(run))
    note_birth(work, run)
    work.put_run(run)
    return run


def allows(run: Run, move: Move) -> bool:
    """Whether the run's state allows the move; if not, the command that asks for it is refused."""
    return (run.state, move) in TRANSITIONS


def change(work: Work, run: Run, move: Move, **fields: Any) -> Run:
    """Move a run on, setting fields. Its state must allow the move."""
    state = TRANSITIONS.get((run.state, move))
    assert state is not None, f"a {run.state} run does not {move}"
    if run.lease is not None and state is not RunState.RUNNING:
        fields["lease"] = None
    if state is RunState.QUEUED:
        fields |= waiting_fields(work, run)
    if run.parked and state is not RunState.QUEUED:
        fields["parked"] = False
    new = msgspec.structs.replace(run, state=state, **fields)
    if not (is_held(new) and is_held(run)):
        _leave(work, run)
        _enter(work, new)
    _set_deadline(work, new, deadline_ms(run), deadline_ms(new))
    note_change(work, run, new)
    work.put_run(new)
    return new


def move_lane(work: Work, run: Run, lane: bytes) -> None:
    """Let a waiting run wait elsewhere."""
    moved = msgspec.structs.replace(run, lane=lane)
    _leave(work, run)
    _enter(work, moved)
    work.put_run(moved)


def skip(work: Work, run: Run, reason: str) -> Run:
    """End a run that will not be attempted (again)."""
    return change(work, run, Move.SKIP, reason=reason, finished_ms=work.now_ms)


def activate(work: Work, run: Run) -> Run:
    """Show a run to the overlap policy of its job, until it is final."""
    active = msgspec.structs.replace(run, exclusive=True)
    work.transaction.put(active_key(run), CATCHING_UP if run.catch_up else b"", db=work.tables.active_by_job)
    work.put_run(active)
    return active


def deactivate(work: Work, run: Run) -> None:
    """Take an active run out of the sight of the overlap policy; others may have waited for that."""
    if run.exclusive:
        work.freed.add(run.job_id)
        work.transaction.delete(active_key(run), db=work.tables.active_by_job)


def reason_word(reason: str) -> str:
    """The SkipReason in a reason, which may go on ': detail'."""
    return reason.partition(":")[0]


def active_key(run: Run) -> bytes:
    return parked_prefix(run.job_id) + run.run_id.encode()


def timer_ms(run: Run) -> int:
    """When a scheduled or retrying run is to be released, or a detached one lapses."""
    if run.lease is not None:
        return run.lease.until_ms
    at_ms = run.release_ms if run.state is RunState.SCHEDULED else run.retry_at_ms
    assert at_ms is not None
    return at_ms


def deadline_ms(run: Run) -> int | None:
    """When the run is ended if it still is as it is now: by its start, if it has not begun, or by its end."""
    if run.start_by_ms is not None and is_unbegun(run):
        return run.start_by_ms
    return None if run.end_by_ms is None or run.state in FINAL_STATES else run.end_by_ms


def is_unbegun(run: Run) -> bool:
    """Nobody holds it, nor has it been attempted."""
    return (run.state is RunState.SCHEDULED or run.state is RunState.QUEUED) and not run.attempts


def _set_deadline(work: Work, run: Run, before_ms: int | None, at_ms: int | None) -> None:
    if before_ms == at_ms:  # nearly always none
        return
    bucket, deadlines = bucket_of(run.job_id), work.tables.deadlines
    if before_ms is not None:
        found = work.transaction.delete(due_key(before_ms, bucket, run.run_id), db=deadlines)
        assert found, "a run with a deadline must stand in deadlines"
    if at_ms is not None:
        work.transaction.put(due_key(at_ms, bucket, run.run_id), b"", db=deadlines)


def timer_key(run: Run) -> bytes:
    """Where a scheduled, retrying or detached run stands in `timers`."""
    return due_key(timer_ms(run), bucket_of(run.job_id), run.run_id)


def claim_key(run: Run) -> bytes:
    assert run.node is not None and run.session is not None
    return session_prefix(run.node, run.session) + run.run_id.encode()


def _enter(work: Work, run: Run) -> None:
    state = run.state
    if run.kind is RunKind.BACKFILL:
        _list_outstanding(work, run)
    if state is RunState.QUEUED:
        if run.parked:
            work.transaction.put(parked_key(run.job_id, run.release_ms, run.run_id), b"", db=work.tables.parked)
        else:
            work.waiting.add(waiting_key(run.lane, run.team, run.release_ms, run.run_id), run.priority)
    elif is_held(run):
        work.transaction.put(claim_key(run), U64.pack(run.token), db=work.tables.claims)
        _hold(work, run, 1)
    elif _has_timer(run):
        entry = TimerEntry(token=run.token, kind=_TIMERS[state])
        work.transaction.put(timer_key(run), encode(entry), db=work.tables.timers)
        _occupy(work, run, 1)
    else:
        _end(work, run)


def _list_outstanding(work: Work, run: Run) -> None:
    """A backfill sees which of its runs are not over."""
    key = parse_run_id(run.run_id)
    assert key is not None
    place = key.nonce.encode() + SEPARATOR + run.run_id.encode()
    if run.state in FINAL_STATES:
        work.transaction.delete(place, db=work.tables.backfill_runs)
    else:
        work.transaction.put(place, b"", db=work.tables.backfill_runs)


def _leave(work: Work, run: Run) -> None:
    state = run.state
    if state is RunState.QUEUED:
        _stop_waiting(work, run)
    elif is_held(run):
        found = work.transaction.delete(claim_key(run), db=work.tables.claims)
        assert found, "a held run must stand in claims"
        if run.stop is not None:
            work.transaction.delete(claim_key(run), db=work.tables.stops)
        _hold(work, run, -1)
    elif _has_timer(run):
        found = work.transaction.delete(timer_key(run), db=work.tables.timers)
        assert found, "a scheduled, retrying or detached run must have its timer"
        _occupy(work, run, -1)
    elif state is RunState.DEAD:
        found = work.transaction.delete(dead_key(run.team, run.run_id), db=work.tables.dead_runs)
        assert found, "a dead run must stand in dead_runs"


def _occupy(work: Work, run: Run, change: int) -> None:
    """Nobody holds a detached run, but it is under way: its team's quota counts it on."""
    if run.lease is not None:
        work.usage[run.team].hold(run, change)


def _stop_waiting(work: Work, run: Run) -> None:
    if not run.parked:
        work.waiting.remove(waiting_key(run.lane, run.team, run.release_ms, run.run_id), run.priority)
        return
    found = work.transaction.delete(parked_key(run.job_id, run.release_ms, run.run_id), db=work.tables.parked)
    assert found, "a parked run must stand in parked"


def _hold(work: Work, run: Run, change: int) -> None:
    work.usage[run.team].hold(run, change)
    seat = work.seat_of(run)
    if seat is not None:
        seat.hold(run, change)
    if run.lane[1] & LANE_SLOW:
        work.targets.hold(run.lane[-1], change)


def _end(work: Work, run: Run) -> None:
    deactivate(work, run)
    if run.state is RunState.DEAD:
        work.transaction.put(dead_key(run.team, run.run_id), b"", db=work.tables.dead_runs)
        work.count_dead(run.team)
    if run.state is RunState.SKIPPED:
        assert run.reason is not None
        work.count_skip(reason_word(run.reason), run.count)
    else:
        work.count(f"runs_{run.state.value}")


def is_held(run: Run) -> bool:
    """Whether a session holds it; a detached run is held by nobody."""
    # Identity, not membership: hashing a member of an enum is a call into Python, and every run comes along here.
    return run.state is RunState.CLAIMED or (run.state is RunState.RUNNING and run.lease is None)


def _has_timer(run: Run) -> bool:
    return run.state is RunState.SCHEDULED or run.state is RunState.RETRYING or run.lease is not None

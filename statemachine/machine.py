"""The state machine: applies proposals, one after another, inside the log's write transaction.

The rules of the package: nothing here reads a clock, a random number or the environment, and nothing raises on what a
proposal contains; a bad command is a value in its reply. A broken invariant of the state raises AssertionError, which
ends the process before anything of the tick is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from statemachine import commands as c
from statemachine.attempts import finish, start, withdraw
from statemachine.backfills import cancel_backfill, start_backfill, step_backfill
from statemachine.buckets import assign_buckets
from statemachine.calendars import delete_calendar, put_calendar
from statemachine.codec import Undecodable, decode_command, encode_reply
from statemachine.completion import complete, detach, heartbeat
from statemachine.copying import StateCopy, clear_tables, write_chunk
from statemachine.deadlines import deadline
from statemachine.dedupe import Proposal, keep_result, kept_result, last_incarnation, refusal_of
from statemachine.fire import fire
from statemachine.handout import hand_out
from statemachine.jobs import delete_job, put_job
from statemachine.keys import U64
from statemachine.outbox import report_notification
from statemachine.overlap import promote_freed
from statemachine.pausing import pause_job, resume_job
from statemachine.redrive import redrive
from statemachine.release import release, run_now
from statemachine.retention import prune_runs
from statemachine.sessions import expire_session, open_session, renew_session, suspect_session
from statemachine.stopping import cancel_run
from statemachine.tables import APPLIED_KEY, Tables, create_state, read_applied_index
from statemachine.teams import delete_team, put_team
from statemachine.work import NO_TIME, Event, Work

_HANDLERS: dict[type, Callable[[Work, Any], c.Reply]] = {
    c.PutJob: put_job,
    c.DeleteJob: delete_job,
    c.PauseJob: pause_job,
    c.ResumeJob: resume_job,
    c.PutCalendar: put_calendar,
    c.DeleteCalendar: delete_calendar,
    c.StartBackfill: start_backfill,
    c.StepBackfill: step_backfill,
    c.CancelBackfill: cancel_backfill,
    c.RunNow: run_now,
    c.Fire: fire,
    c.Release: release,
    c.Start: start,
    c.Finish: finish,
    c.Withdraw: withdraw,
    c.Detach: detach,
    c.Heartbeat: heartbeat,
    c.Complete: complete,
    c.CancelRun: cancel_run,
    c.Deadline: deadline,
    c.Redrive: redrive,
    c.OpenSession: open_session,
    c.RenewSession: renew_session,
    c.SuspectSession: suspect_session,
    c.ExpireSession: expire_session,
    c.AssignBuckets: assign_buckets,
    c.PutTeam: put_team,
    c.DeleteTeam: delete_team,
    c.ReportNotification: report_notification,
    c.PruneRuns: prune_runs,
}


class Applied(NamedTuple):
    """What applying one proposal gave: a reply a command, in order, and the events for the node processes."""

    replies: Sequence[bytes]
    events: Sequence[Event] = ()


class Machine:
    """The Applier of raftlog (by shape). Holds the handles of the tables and nothing else: all state is in LMDB."""

    def __init__(self, environment: Any) -> None:
        """Open or create the tables; must not be called inside a write transaction of the environment."""
        self._environment = environment
        self._state = create_state(environment)

    def tables(self, transaction: Any) -> Tables:
        """The tables that count in this transaction."""
        return self._state.tables(transaction)

    def applied_index(self, transaction: Any) -> int:
        """The index that the state in this transaction stands at; 0 for an empty store."""
        return read_applied_index(transaction, self.tables(transaction))

    def incarnation_of(self, transaction: Any, node: str) -> int:
        """The newest incarnation of a node that has proposed anything; 0: it has not."""
        return last_incarnation(transaction, self.tables(transaction), node)

    def apply(self, transaction: Any, *, index: int, proposal: Proposal | None) -> Applied:
        """Apply the entry at `index`, the one after the last. None is an entry without commands."""
        tables = self.tables(transaction)
        assert index == read_applied_index(transaction, tables) + 1, "entries are applied in order, each once"
        applied = Applied(()) if proposal is None else _apply_once(transaction, tables, proposal)
        transaction.put(APPLIED_KEY, U64.pack(index), db=tables.meta)
        return applied

    # Copies of the whole state, from one node to another.

    def copy_state(self) -> StateCopy:
        """The state as it is committed now, for reading while it goes on changing. To be closed."""
        return StateCopy(self._environment, self._state)

    def receive(self, transaction: Any, chunk: bytes) -> bool:
        """Write the next chunk of another node's copy beside the state; False if it is none, or not the next."""
        return write_chunk(transaction, self._state.beside(transaction), chunk)

    def install(self, transaction: Any, *, index: int) -> bool:
        """What was received becomes the state; False, and nothing is changed, if it does not stand at this index."""
        if read_applied_index(transaction, self._state.beside(transaction)) != index:
            return False
        self._state.flip(transaction)
        return True

    def discard(self, transaction: Any) -> bool:
        """Drop a part of what is beside the state: a copy half received, or the state before the last one. Whether
        nothing is left of it."""
        return clear_tables(transaction, self._state.beside(transaction))


def _apply_once(transaction: Any, tables: Tables, proposal: Proposal) -> Applied:
    code = refusal_of(transaction, tables, proposal)
    if code is not None:
        return Applied([encode_reply(c.PlainReply(code=code))] * len(proposal.commands))
    kept = kept_result(transaction, tables, proposal)
    if kept is not None:
        return Applied(kept)
    work = Work(transaction, tables, proposal.node)
    replies = [encode_reply(_execute(work, data)) for data in proposal.commands]
    if work.now_ms != NO_TIME:
        hand_out(work)
        promote_freed(work)
    work.flush()
    keep_result(transaction, tables, proposal, replies)
    return Applied(replies, work.events)


def _execute(work: Work, data: bytes) -> c.Reply:
    try:
        command = decode_command(data)
    except Undecodable:
        # Not the library's text: it may differ between versions, and replies are part of the state.
        return c.PlainReply(code="malformed", detail=c.REFUSALS["malformed"])
    work.hear(command.now_ms)
    reply = _HANDLERS[type(command)](work, command)
    promote_freed(work)
    return reply

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
from statemachine.buckets import assign_buckets
from statemachine.codec import Undecodable, decode_command, encode_reply
from statemachine.dedupe import Proposal, keep_result, kept_result, refusal_of
from statemachine.fire import fire
from statemachine.handout import hand_out
from statemachine.jobs import delete_job, put_job
from statemachine.keys import U64
from statemachine.release import release, run_now
from statemachine.sessions import expire_session, open_session, renew_session
from statemachine.tables import APPLIED_KEY, Tables, create_tables, read_applied_index
from statemachine.work import NO_TIME, Event, Work

_HANDLERS: dict[type, Callable[[Work, Any], c.Reply]] = {
    c.PutJob: put_job,
    c.DeleteJob: delete_job,
    c.RunNow: run_now,
    c.Fire: fire,
    c.Release: release,
    c.Start: start,
    c.Finish: finish,
    c.Withdraw: withdraw,
    c.OpenSession: open_session,
    c.RenewSession: renew_session,
    c.ExpireSession: expire_session,
    c.AssignBuckets: assign_buckets,
}


class Applied(NamedTuple):
    """What applying one proposal gave: a reply a command, in order, and the events for the node processes."""

    replies: Sequence[bytes]
    events: Sequence[Event] = ()


class Machine:
    """The Applier of raftlog (by shape). Holds the handles of the tables and nothing else: all state is in LMDB."""

    def __init__(self, environment: Any) -> None:
        """Open or create the tables; must not be called inside a write transaction of the environment."""
        self._tables = create_tables(environment)

    @property
    def tables(self) -> Tables:
        return self._tables

    def applied_index(self, transaction: Any) -> int:
        """The index that the state in this transaction stands at; 0 for an empty store."""
        return read_applied_index(transaction, self._tables)

    def apply(self, transaction: Any, *, index: int, proposal: Proposal | None) -> Applied:
        """Apply the entry at `index`, the one after the last. None is an entry without commands."""
        assert index == self.applied_index(transaction) + 1, "entries are applied in order, each once"
        applied = Applied(()) if proposal is None else self._apply_once(transaction, proposal)
        transaction.put(APPLIED_KEY, U64.pack(index), db=self._tables.meta)
        return applied

    def _apply_once(self, transaction: Any, proposal: Proposal) -> Applied:
        code = refusal_of(transaction, self._tables, proposal)
        if code is not None:
            return Applied([encode_reply(c.PlainReply(code=code))] * len(proposal.commands))
        kept = kept_result(transaction, self._tables, proposal)
        if kept is not None:
            return Applied(kept)
        work = Work(transaction, self._tables)
        replies = [encode_reply(_execute(work, data)) for data in proposal.commands]
        if work.now_ms != NO_TIME:
            hand_out(work)
        work.flush()
        keep_result(transaction, self._tables, proposal, replies)
        return Applied(replies, work.events)


def _execute(work: Work, data: bytes) -> c.Reply:
    try:
        command = decode_command(data)
    except Undecodable:
        # Not the library's text: it may differ between versions, and replies are part of the state.
        return c.PlainReply(code="malformed", detail=c.REFUSALS["malformed"])
    work.now_ms = max(work.now_ms, command.now_ms)
    return _HANDLERS[type(command)](work, command)

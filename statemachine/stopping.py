"""Ending a run that is not over: because somebody cancelled it, another takes its place, or it took too long.

What nobody holds ends at once. What a session holds is marked (`Run.stop`), its holder is told and kills the attempt;
whatever comes next for that claim (a result, a withdrawal, the end of the session) ends the run as the mark says, and
never tries it again (I8). The mark stands in `stops`, too, where the holder finds it if the event was lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from statemachine.commands import CancelRun, PlainReply, Reply, StopRequested
from statemachine.keys import U64
from statemachine.lifecycle import change, claim_key, is_held
from statemachine.records import FINAL_STATES, Run, RunState
from statemachine.transitions import Move
from statemachine.work import Work

CANCELLED = "cancelled"
RUN_TIMEOUT = "run_timeout"


def cancel_run(work: Work, command: CancelRun) -> Reply:
    """End a run because somebody wishes so; a repeat changes nothing."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    if run.state in FINAL_STATES:
        code = "ok" if run.state is RunState.CANCELLED else "illegal_state"
        return PlainReply(code=code, detail=run.state.value)
    stop(work, run, CANCELLED if command.reason is None else f"{CANCELLED}: {command.reason}")
    return PlainReply()


def stop(work: Work, run: Run, why: str) -> None:
    """End a run that is not final, now or as soon as its holder lets go of it. A cancel outranks what was to end it
    before: it was promised to somebody."""
    if not is_held(run):
        end_stopped(work, msgspec.structs.replace(run, stop=why), finished_ms=work.now_ms)
        return
    assert run.node is not None
    if run.stop is None:
        work.transaction.put(claim_key(run), U64.pack(run.token), db=work.tables.stops)
    if run.stop is None or _is_cancel(why) > _is_cancel(run.stop):
        work.put_run(msgspec.structs.replace(run, stop=why))
    work.emit(run.node, StopRequested(run_id=run.run_id, token=run.token))


def end_stopped(work: Work, run: Run, **fields: Any) -> Run:
    """End a run as its mark says."""
    move = Move.EXHAUST if run.stop == RUN_TIMEOUT else Move.CANCEL
    return change(work, run, move, reason=run.stop, stop=None, retry_at_ms=None, **fields)


def _is_cancel(why: str) -> bool:
    return why.partition(":")[0] == CANCELLED

"""The rules of a run: what each state means, and the one table of legal moves. A missing key is the refusal.

Every non-final state has somebody who ends it, by a deadline: that is why no run can rest (I4).

scheduled   made ahead of its time, for a job whose overlap has to be judged at that time. Stands in `timers` at its
            release time; the owner of its bucket proposes Release then, and a later owner finds the timer there.
queued      may run as soon as a session has room. Stands in `waiting`; apply itself hands it out, whenever a command
            frees or fills something (renewals come every 1.5 s, so at the latest then). A parked one stands in `parked`
            until a run of its job ends that holds it back; whatever ends that one promotes it in the same apply.
claimed     a session holds it, under a fencing token. Stands in `claims`; its node starts it at the release time and
            reports Finish, or gives it back by Withdraw; if the session ends, the leader's ExpireSession takes it back.
            Marked with `stop` it ends with the next of these, whatever that says.
running     the holder has reported a start (a report, not a gate: short runs never do). Ends as `claimed` does, except
            that it can no longer be withdrawn. If the target took the attempt over, to complete it later, no session
            holds the run: it has a lease of its own, stands in `timers` at the end of that, and ends by Complete, or by
            Release once the lease has lapsed.
retrying    an attempt failed and there are more. Stands in `timers` at the time of the next; the bucket's owner
            proposes Release then.
succeeded, dead, cancelled, skipped are final: a result, attempts used up, somebody's wish, a reason not to run. A skip
            because the definition changed can be taken back (`rearm`), by a tick of the new definition; a dead run
            stands in `dead_runs`, and can be tried anew (`redrive`).
"""

from __future__ import annotations

from enum import StrEnum

from statemachine.records import RunState

_S = RunState


class Move(StrEnum):
    """What happens to a run, and who makes it happen."""

    RELEASE = "release"  # its time has come: Release by the bucket's owner
    PARK = "park"  # the same, but other runs of the job hold it back
    PROMOTE = "promote"  # apply, when a run of the job has ended that held it back
    CLAIM = "claim"  # apply hands it to a session
    START = "start"  # Start by the holder
    DETACH = "detach"  # Detach by the holder: the target completes the attempt
    EXTEND = "extend"  # Heartbeat by the target that completes it
    SUCCEED = "succeed"  # Finish by the holder, Complete by the target
    RETRY = "retry"  # Finish or Complete(failed | timed_out), or a lease that lapsed, with attempts left
    EXHAUST = "exhaust"  # the same or a lost session, with none left; or the run took too long
    CANCEL = "cancel"  # CancelRun if nobody holds it; else the report, or the end of the session, of its holder
    LOSE = "lose"  # ExpireSession with attempts left, or before its time
    WITHDRAW = "withdraw"  # Withdraw without a reason, by the holder
    SKIP = "skip"  # overlap, a deleted job, Withdraw with a reason
    REDRIVE = "redrive"  # Redrive: somebody wants it tried anew; it is judged again at once
    REARM = "rearm"  # a new definition has the tick, too: by its Fire, or when the run of the old one is withdrawn


BIRTHS = (_S.SCHEDULED, _S.QUEUED, _S.SKIPPED)
"""The states that a run can begin in."""

TRANSITIONS: dict[tuple[RunState, Move], RunState] = {
    (_S.SCHEDULED, Move.RELEASE): _S.QUEUED,
    (_S.SCHEDULED, Move.PARK): _S.QUEUED,
    (_S.SCHEDULED, Move.SKIP): _S.SKIPPED,
    (_S.SCHEDULED, Move.CANCEL): _S.CANCELLED,
    (_S.SCHEDULED, Move.REARM): _S.SCHEDULED,
    (_S.QUEUED, Move.PROMOTE): _S.QUEUED,
    (_S.QUEUED, Move.CLAIM): _S.CLAIMED,
    (_S.QUEUED, Move.SKIP): _S.SKIPPED,
    (_S.QUEUED, Move.CANCEL): _S.CANCELLED,
    (_S.QUEUED, Move.EXHAUST): _S.DEAD,
    (_S.QUEUED, Move.REARM): _S.SCHEDULED,
    (_S.CLAIMED, Move.START): _S.RUNNING,
    (_S.CLAIMED, Move.DETACH): _S.RUNNING,
    (_S.CLAIMED, Move.SUCCEED): _S.SUCCEEDED,
    (_S.CLAIMED, Move.RETRY): _S.RETRYING,
    (_S.CLAIMED, Move.EXHAUST): _S.DEAD,
    (_S.CLAIMED, Move.CANCEL): _S.CANCELLED,
    (_S.CLAIMED, Move.LOSE): _S.QUEUED,
    (_S.CLAIMED, Move.WITHDRAW): _S.QUEUED,
    (_S.CLAIMED, Move.SKIP): _S.SKIPPED,
    (_S.CLAIMED, Move.REARM): _S.SCHEDULED,
    (_S.RUNNING, Move.START): _S.RUNNING,
    (_S.RUNNING, Move.DETACH): _S.RUNNING,
    (_S.RUNNING, Move.EXTEND): _S.RUNNING,
    (_S.RUNNING, Move.SUCCEED): _S.SUCCEEDED,
    (_S.RUNNING, Move.RETRY): _S.RETRYING,
    (_S.RUNNING, Move.EXHAUST): _S.DEAD,
    (_S.RUNNING, Move.CANCEL): _S.CANCELLED,
    (_S.RUNNING, Move.LOSE): _S.QUEUED,
    (_S.RETRYING, Move.RELEASE): _S.QUEUED,
    (_S.RETRYING, Move.CANCEL): _S.CANCELLED,
    (_S.RETRYING, Move.EXHAUST): _S.DEAD,
    (_S.SKIPPED, Move.REARM): _S.SCHEDULED,
    (_S.DEAD, Move.REDRIVE): _S.SCHEDULED,
}


def diagram() -> str:
    """The table as a Mermaid state diagram; statemachine/DESIGN.md holds it, and a test compares the two."""
    births = [f"    [*] --> {state}" for state in BIRTHS]
    moves = [f"    {state} --> {end}: {move}" for (state, move), end in TRANSITIONS.items()]
    ends = [f"    {state} --> [*]" for state in (_S.SUCCEEDED, _S.DEAD, _S.CANCELLED, _S.SKIPPED)]
    return "\n".join(["stateDiagram-v2", *births, *moves, *ends])

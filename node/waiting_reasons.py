"""Why a run waits, for people: nothing here decides anything (the hand-out is statemachine/handout.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from statemachine.keys import LANE_SLOW, kind_of_lane
from statemachine.records import Run, RunState, Session
from statemachine.snapshot import Snapshot

UNPLACEABLE_COUNTED_MAX = 10_000
"""Runs that no node can run which one lane's count goes up to."""


def explained(snapshot: Snapshot, run: Run) -> Run:
    """The run, with a `reason` if it is past its time and waits for more than its turn."""
    clock_ms = snapshot.clock_ms()
    is_early = clock_ms is not None and run.release_ms > clock_ms
    if run.state is not RunState.QUEUED or run.reason is not None or is_early:
        return run
    why = _unfit(_live(snapshot), run) or _quota(snapshot, run) or _slow(run)
    return run if why is None else msgspec.structs.replace(run, reason=f"waits: {why}")


def unplaceable(snapshot: Snapshot) -> int:
    """How many runs wait that no live node can run, whatever room it has."""
    live = _live(snapshot)
    return sum(
        snapshot.lane_depth(lane, UNPLACEABLE_COUNTED_MAX)
        for lane, run in snapshot.lanes_waiting()
        if _unfit(live, run) is not None
    )


def _live(snapshot: Snapshot) -> list[Session]:
    return [session for session in snapshot.sessions() if session.live]


def _unfit(live: Sequence[Session], run: Run) -> str | None:
    """What no live node has that the run needs."""
    with_tags = [session for session in live if run.run_on.items() <= session.tags.items()]
    if not with_tags:
        return f"no live node has the tags {_text(run.run_on)}" if run.run_on else "no node is live"
    kind = kind_of_lane(run.lane)
    if all(session.kind_slots.get(kind) == 0 for session in with_tags):
        where = f" with the tags {_text(run.run_on)}" if run.run_on else ""
        return f"no live node{where} runs targets of type {kind}"
    return None


def _quota(snapshot: Snapshot, run: Run) -> str | None:
    team = snapshot.team(run.team)
    if team is None or team.max_concurrent is None or snapshot.team_use(run.team).held < team.max_concurrent:
        return None
    return f"team {run.team} has its max_concurrent of {team.max_concurrent} runs under way"


def _slow(run: Run) -> str | None:
    is_slow = run.lane[1] & LANE_SLOW
    return "its target times out often, and holds its share of the slots" if is_slow else None


def _text(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(tags.items()))

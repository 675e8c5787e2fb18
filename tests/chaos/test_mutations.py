"""A history that a simulated cluster really left behind passes; with any one thing in it changed to what must not be,
it is caught, and under the promise that was broken."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest

from chaos.campaign import Campaign, run_seed
from chaos.check_lateness import RECOVERED_S
from chaos.check_overlap import exclusive_jobs
from chaos.history import Claimed, Finished, Fired, History, LeaderSeen, Operation, Seen, SessionOver
from chaos.verdict import has_passed, judge, violations_of
from node.clock import SystemClock
from node.interface import FINAL_STATES, Run, RunKind, RunState

PICKS = 3
"""How many different things of the history each mutation is tried on."""
SEED, STEPS = 3, 8
One = TypeVar("One")
Mutation = Callable[[History, random.Random], History]


@pytest.fixture(scope="module")
def recorded() -> History:
    campaign = Campaign(first_seed=SEED, seeds=1, nodes=3, steps=STEPS, keep_history=True)
    history = run_seed(SEED, campaign, SystemClock().monotonic).history
    assert history is not None
    return history


def pick(dice: random.Random, found: Sequence[One]) -> One:
    assert found, "the recorded run has nothing of that kind: pick another seed"
    return found[dice.randrange(len(found))]


def without(sequence: Sequence[One], gone: One) -> list[One]:
    return [one for one in sequence if one is not gone]


def instead(sequence: Sequence[One], old: One, new: One) -> list[One]:
    return [new if one is old else one for one in sequence]


def with_run(history: History, run: Run, **changes: Any) -> History:
    """The run is otherwise on every node."""
    changed = msgspec.structs.replace(run, **changes)
    states = [replace(state, runs={**state.runs, run.run_id: changed}) for state in history.states]
    return replace(history, states=states)


def runs_of(history: History, *states: RunState) -> list[Run]:
    """Of jobs that live, released before the healing."""
    jobs, healed_ms = history.states[0].jobs, history.wall_ms(history.healed_s)
    runs = history.states[0].runs.values()
    return [
        run
        for run in runs
        if run.state in states and run.release_ms < healed_ms and jobs[run.job_id].deleted_ms is None
    ]


def drop_a_run(history: History, dice: random.Random) -> History:
    ticks = [run for run in runs_of(history, RunState.SUCCEEDED) if run.kind is RunKind.SCHEDULED]
    gone = pick(dice, ticks).run_id
    states = [
        replace(state, runs={run_id: run for run_id, run in state.runs.items() if run_id != gone})
        for state in history.states
    ]
    return replace(history, states=states)


def fire_a_tick_twice(history: History, dice: random.Random) -> History:
    fired = pick(dice, [entry for entry in history.truth if isinstance(entry, Fired) and entry.runs_ms])
    return replace(history, truth=[*history.truth, fired])


def double_an_effect(history: History, dice: random.Random) -> History:
    return replace(history, effects=[*history.effects, pick(dice, history.effects)])


def move_an_effect_to_another_node(history: History, dice: random.Random) -> History:
    effect = pick(dice, history.effects)
    other = next(state.node for state in history.states if state.node != effect.node)
    return replace(history, effects=instead(history.effects, effect, replace(effect, node=other)))


def lower_a_token(history: History, dice: random.Random) -> History:
    claim = pick(dice, [entry for entry in history.truth if isinstance(entry, Claimed) and entry.token > 1])
    return replace(history, truth=instead(history.truth, claim, replace(claim, token=claim.token - 1)))


def count_a_result_twice(history: History, dice: random.Random) -> History:
    result = pick(dice, [entry for entry in history.truth if isinstance(entry, Finished) and entry.code == "ok"])
    return replace(history, truth=[*history.truth, result])


def let_a_zombie_call(history: History, dice: random.Random) -> History:
    """A call under the token before, after the one that counts."""
    effect = pick(dice, [effect for effect in history.effects if effect.token > 1])
    zombie = replace(effect, token=effect.token - 1, attempt=max(effect.attempt - 1, 1), at_s=effect.at_s + 0.5)
    return replace(history, effects=[*history.effects, zombie])


def let_a_run_rest(history: History, dice: random.Random) -> History:
    """The cluster was looked at for a minute more, and it was as it had been."""
    resting = with_run(history, pick(dice, runs_of(history, RunState.SUCCEEDED)), state=RunState.CLAIMED)
    return replace(resting, end_s=history.end_s + 60.0)


def bury_a_run_too_soon(history: History, dice: random.Random) -> History:
    run = pick(dice, runs_of(history, RunState.DEAD))
    return with_run(history, run, attempts_max=len(run.attempts) + 1)


def turn_a_success_into_a_failure(history: History, dice: random.Random) -> History:
    counted = {(run.run_id, run.token) for run in runs_of(history, RunState.SUCCEEDED)}
    end = pick(dice, [end for end in history.effect_ends if (end.run_id, end.token) in counted])
    return replace(history, effect_ends=instead(history.effect_ends, end, replace(end, how="failed")))


def lose_a_job(history: History, dice: random.Random) -> History:
    created = [one for one in history.operations if one.kind == "create" and one.answer == "ok"]
    gone, state = pick(dice, created).subject, pick(dice, history.states)
    jobs = {job_id: job for job_id, job in state.jobs.items() if job_id != gone}
    return replace(history, states=instead(history.states, state, replace(state, jobs=jobs)))


def let_a_replica_part(history: History, dice: random.Random) -> History:
    one, other = history.states[:2]
    parted = replace(one, applied_index=other.applied_index, digest="another")
    return replace(history, states=instead(history.states, one, parted))


def claim_over_another(history: History, dice: random.Random) -> History:
    """A run of a job that skips overlaps is handed out just before the one before it has ended."""
    exclusive, truth = exclusive_jobs(history), list(history.truth)
    claims = [
        (place, entry) for place, entry in enumerate(truth) if isinstance(entry, Claimed) and entry.job_id in exclusive
    ]
    pairs = [
        (claim, ended)
        for (_, before), (place, claim) in pairwise(claims)
        for ended in truth[:place]
        if isinstance(ended, Finished) and (ended.run_id, ended.code) == (before.run_id, "ok")
        if claim.job_id == before.job_id and claim.run_id != before.run_id
    ]
    claim, ended = pick(dice, pairs)
    truth.remove(claim)
    truth.insert(truth.index(ended), claim)
    return replace(history, truth=truth)


def skip_without_a_reason(history: History, dice: random.Random) -> History:
    return with_run(history, pick(dice, runs_of(history, RunState.SKIPPED)), reason=None)


def delete_before_its_runs(history: History, dice: random.Random) -> History:
    delete = pick(dice, _deletes(history))
    moved = _moved(history, delete)
    assert any(effect.at_s > moved.ended_s and effect.job_id == delete.subject for effect in history.effects)
    return replace(history, operations=instead(history.operations, delete, moved))


def delete_before_its_reads(history: History, dice: random.Random) -> History:
    seen = [
        delete
        for delete in _deletes(history)
        if any(
            one.seen is not None and delete.subject in one.seen.jobs and one.seen.stale_s == 0
            for one in history.operations
            if one.invoked_s > _moved(history, delete).ended_s
        )
    ]
    delete = pick(dice, seen)
    return replace(history, operations=instead(history.operations, delete, _moved(history, delete)))


def _deletes(history: History) -> list[Operation]:
    """That were answered, of jobs that had run before."""
    ran = {effect.job_id for effect in history.effects if effect.attempt == 1}
    return [one for one in history.operations if one.kind == "delete" and one.answer == "ok" and one.subject in ran]


def _moved(history: History, delete: Operation) -> Operation:
    """The delete, right after its job was created."""
    created = next(one for one in history.operations if one.kind == "create" and one.subject == delete.subject)
    return replace(delete, invoked_s=created.ended_s + 0.001, ended_s=created.ended_s + 0.002)


def start_after_the_lapse(history: History, dice: random.Random) -> History:
    """The session of an effect had ended a moment before it."""
    effect, over = pick(dice, _of_ended_sessions(history))
    return replace(history, truth=instead(history.truth, over, replace(over, at_s=effect.at_s - 0.1)))


def run_on_after_the_lapse(history: History, dice: random.Random) -> History:
    """A call under a session that has ended began in time and went on for too long; nobody was away."""
    effect, over = pick(dice, _of_ended_sessions(history))
    ends = [
        replace(end, at_s=over.at_s + 2.0) if (end.run_id, end.token) == (effect.run_id, effect.token) else end
        for end in history.effect_ends
    ]
    return replace(history, effect_ends=ends, absences=[])


def _of_ended_sessions(history: History) -> list[tuple[Any, SessionOver]]:
    over = {(entry.node, entry.incarnation): entry for entry in history.truth if isinstance(entry, SessionOver)}
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    ended = {(end.run_id, end.token) for end in history.effect_ends}
    found = []
    for effect in history.effects:
        claim = claims[effect.run_id, effect.token]
        if (claim.node, claim.session) in over and (effect.run_id, effect.token) in ended:
            found.append((effect, over[claim.node, claim.session]))
    return found


def flip_a_read(history: History, dice: random.Random) -> History:
    """A job that was there is not found."""
    deleted = {one.subject for one in history.operations if one.kind == "delete"}
    found = [
        one
        for one in history.operations
        if one.kind == "read" and not one.local and one.seen is not None and one.seen.jobs
        if one.subject not in deleted
    ]
    read = pick(dice, found)
    nothing = Seen(applied_index=None, stale_s=0.0, jobs={})
    return replace(history, operations=instead(history.operations, read, replace(read, seen=nothing)))


def drop_a_job_from_a_list(history: History, dice: random.Random) -> History:
    deleted = {one.subject for one in history.operations if one.kind == "delete"}
    lists = [
        one
        for one in history.operations
        if one.kind == "list" and not one.local and one.seen is not None and one.seen.jobs.keys() - deleted
    ]
    listed = pick(dice, lists)
    assert listed.seen is not None
    gone = pick(dice, sorted(listed.seen.jobs.keys() - deleted))
    jobs = {job_id: job for job_id, job in listed.seen.jobs.items() if job_id != gone}
    dropped = replace(listed, seen=replace(listed.seen, jobs=jobs, applied_index=None))
    return replace(history, operations=instead(history.operations, listed, dropped))


def read_an_old_index(history: History, dice: random.Random) -> History:
    reads = [one for one in history.operations if one.seen is not None and one.seen.applied_index and not one.local]
    later = [one for one in reads if any(before.ended_s < one.invoked_s for before in reads)]
    read = pick(dice, later)
    assert read.seen is not None
    old = replace(read, seen=replace(read.seen, applied_index=1))
    return replace(history, operations=instead(history.operations, read, old))


def start_late(history: History, dice: random.Random) -> History:
    """All that was released after the recovery."""
    since_s = history.healed_s + RECOVERED_S
    effects = [replace(one, at_s=one.at_s + 3.0) if one.at_s > since_s else one for one in history.effects]
    return replace(history, effects=effects)


def change_the_leader(history: History, dice: random.Random) -> History:
    names = [state.node for state in history.states] * 2
    later = [LeaderSeen(at_s=history.end_s - 9 + at_s, node=node, term=99) for at_s, node in enumerate(names)]
    return replace(history, leaders=[*history.leaders, *later])


def leave_a_call_open(history: History, dice: random.Random) -> History:
    end = pick(dice, [end for end in history.effect_ends if end.at_s < history.end_s - 15.0])
    return replace(history, effect_ends=without(history.effect_ends, end), absences=[])


def leave_a_session_open(history: History, dice: random.Random) -> History:
    over = pick(dice, [entry for entry in history.truth if isinstance(entry, SessionOver)])
    return replace(history, truth=without(history.truth, over))


def leave_a_request_open(history: History, dice: random.Random) -> History:
    one = pick(dice, history.operations)
    return replace(history, operations=instead(history.operations, one, replace(one, ended_s=float("inf"))))


MUTATIONS: list[tuple[Mutation, str]] = [
    (drop_a_run, "I2"),
    (fire_a_tick_twice, "I1"),
    (double_an_effect, "I1"),
    (move_an_effect_to_another_node, "I1"),
    (lower_a_token, "I3"),
    (count_a_result_twice, "I3"),
    (let_a_zombie_call, "I3"),
    (let_a_run_rest, "I4"),
    (bury_a_run_too_soon, "I4"),
    (turn_a_success_into_a_failure, "I4"),
    (lose_a_job, "I5"),
    (let_a_replica_part, "I6"),
    (claim_over_another, "I7"),
    (skip_without_a_reason, "I7"),
    (delete_before_its_runs, "I8"),
    (delete_before_its_reads, "I10"),
    (start_after_the_lapse, "I9"),
    (run_on_after_the_lapse, "I9"),
    (flip_a_read, "I10"),
    (drop_a_job_from_a_list, "I10"),
    (read_an_old_index, "I10"),
    (start_late, "I11"),
    (change_the_leader, "healing"),
    (leave_a_call_open, "ends"),
    (leave_a_session_open, "ends"),
    (leave_a_request_open, "ends"),
]


@pytest.mark.slow
def test_what_was_recorded_passes_and_exercises_the_promises(recorded: History) -> None:
    verdicts = judge(recorded)
    assert has_passed(verdicts), [str(violation) for verdict in verdicts for violation in verdict.violations]
    assert {verdict.promise for verdict in verdicts if verdict.word == "not exercised"} == {"resources"}
    assert all(run.state in FINAL_STATES for run in runs_of(recorded, *RunState))


@pytest.mark.slow
@pytest.mark.parametrize(("mutation", "promise"), MUTATIONS, ids=[mutation.__name__ for mutation, _ in MUTATIONS])
def test_a_change_to_what_must_not_be_is_caught(recorded: History, mutation: Mutation, promise: str) -> None:
    for number in range(PICKS):
        changed = mutation(recorded, random.Random(f"{mutation.__name__} {number}"))
        assert promise in {violation.promise for violation in violations_of(changed)}, number


@pytest.mark.slow
def test_a_simulated_fault_says_whom_it_hit_and_how_long(recorded: History) -> None:
    """The report draws them as bands."""
    nodes = {state.node for state in recorded.states}
    assert len(recorded.faults) == STEPS
    for fault in recorded.faults:
        words = fault.what.split()
        assert fault.node is None or (fault.node in nodes and words[1] == fault.node)
        if fault.kind == "pause":
            assert fault.until_s == pytest.approx(fault.at_s + float(words[-1].removesuffix("s")))
    assert any(fault.node for fault in recorded.faults)

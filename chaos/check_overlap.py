"""I7: what may not run at once does not, and what is skipped for it says for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from chaos.history import Claimed, Finished, History, SessionOpened, SessionOver, Violation, Withdrawn
from node.interface import Run, RunState, SkipReason

REASONS = frozenset(reason.value for reason in SkipReason)


def no_two_at_once(history: History) -> Iterator[Violation]:
    """I7: of a job whose runs may not overlap, none is handed out between another's first claim and its last: one that
    waits for its next attempt is under way too."""
    exclusive = exclusive_jobs(history)
    spans: dict[str, tuple[str, int, int]] = {}
    """Run id -> job, and its first and last place in the truth."""
    for place, entry in enumerate(history.truth):
        if isinstance(entry, Claimed) and entry.job_id in exclusive:
            _, first, _ = spans.get(entry.run_id, ("", place, place))
            spans[entry.run_id] = (entry.job_id, first, place)
        elif isinstance(entry, Finished) and entry.code == "ok" and entry.run_id in spans:
            job_id, first, _ = spans[entry.run_id]
            spans[entry.run_id] = (job_id, first, place)
    by_job: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for run_id, (job_id, first, last) in spans.items():
        by_job[job_id].append((first, last, run_id))
    for job_id, runs in sorted(by_job.items()):
        runs.sort()
        for (_, last, run_id), (first, _, next_id) in pairwise(runs):
            if first < last:
                what = f"job {job_id}: run {next_id} was handed out while {run_id} was under way"
                yield Violation(promise="I7", what=what)


def exclusive_jobs(history: History) -> set[str]:
    """Ids of the jobs that never allowed overlaps, nor a certain number of runs at once (check_quotas.py)."""
    return {
        job.job_id
        for state in history.states
        for job in state.jobs.values()
        if job.overlap_policy != "allow" and job.max_concurrent in (None, 1) and job.version == 1
    }


def skips_say_why(history: History) -> Iterator[Violation]:
    """I2, I7: what is skipped names one of the known reasons; an overlap, the other run of the job, which there is."""
    for state in history.states:
        for run in state.runs.values():
            flaw = _flaw_of_skip(run, state.runs) if run.state is RunState.SKIPPED else None
            if flaw is not None:
                yield Violation(promise="I7", what=f"{state.node}: run {run.run_id} {flaw}")


def _flaw_of_skip(run: Run, runs: Mapping[str, Run]) -> str | None:
    word, _, detail = (run.reason or "").partition(": ")
    if word not in REASONS:
        return f"is skipped for {run.reason!r}"
    if word != SkipReason.OVERLAP.value:
        return None
    other = runs.get(detail)
    if other is None or other.job_id != run.job_id or other.run_id == run.run_id:
        return f"is skipped for an overlap with {detail or 'nothing'}"
    return None


def held_within_room(history: History) -> Iterator[Violation]:
    """I7: no session ever holds more claims than it offered room for, and what is given back is given back once."""
    room: dict[tuple[str, int], int] = {}
    held: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    holder: dict[str, tuple[str, int]] = {}
    for entry in history.truth:
        match entry:
            case SessionOpened(node=node, incarnation=incarnation, room=offered) if offered is not None:
                room[node, incarnation] = offered
            case SessionOver(node=node, incarnation=incarnation):
                room.pop((node, incarnation), None)
            case Claimed(run_id=run_id, node=node, session=session):
                holder[run_id] = (node, session)
                held[node, session].add(run_id)
                if len(held[node, session]) > room.get((node, session), len(held[node, session])):
                    what = f"{node} held {len(held[node, session])} claims at index {entry.index}, more than it offered"
                    yield Violation(promise="I7", what=what)
            case Finished(code="ok") | Withdrawn(code="ok") if entry.run_id in holder:
                held[holder[entry.run_id]].discard(entry.run_id)

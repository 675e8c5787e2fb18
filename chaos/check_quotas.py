"""I7: what a team may have under way at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from chaos.history import Claimed, Finished, History, QuotaSet, SessionOver, Truth, Violation, Withdrawn
from node.interface import RunState

HELD = (RunState.CLAIMED, RunState.RUNNING)


def quotas_hold(history: History) -> Iterator[Violation]:
    """I7: no claim is made beyond its team's quota, at any index; a quota that is lowered drains. What a session held
    is counted until it has ended."""
    teams = {job.job_id: job.team for state in history.states for job in state.jobs.values()}
    quotas: dict[str, int | None] = {}
    held: defaultdict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    """Team -> run -> the session that holds it."""
    for entry in history.truth:
        match entry:
            case QuotaSet(team=team, max_concurrent=quota):
                quotas[team] = quota
            case Claimed(run_id=run_id, job_id=job_id, node=node, session=session) if job_id in teams:
                team = teams[job_id]
                held[team][run_id] = (node, session)
                most = quotas.get(team)
                if most is not None and len(held[team]) > most:
                    what = f"team {team} held {len(held[team])} claims at index {entry.index}, its quota is {most}"
                    yield Violation(promise="I7", what=what)
            case _:
                _release(entry, held)


def jobs_hold_no_more(history: History) -> Iterator[Violation]:
    """I7: no more claims of a job's runs are held than its `max_concurrent`, at any index."""
    most = {
        job.job_id: job.max_concurrent
        for state in history.states
        for job in state.jobs.values()
        if job.max_concurrent is not None and job.version == 1
    }
    held: defaultdict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    for entry in history.truth:
        if isinstance(entry, Claimed) and entry.job_id in most:
            held[entry.job_id][entry.run_id] = (entry.node, entry.session)
            count = len(held[entry.job_id])
            if count > most[entry.job_id]:
                what = f"job {entry.job_id} held {count} claims at index {entry.index}, of {most[entry.job_id]} at most"
                yield Violation(promise="I7", what=what)
        else:
            _release(entry, held)


def _release(entry: Truth, held: Mapping[str, dict[str, tuple[str, int]]]) -> None:
    """Take away what is held no more; of an ended session that is all of it."""
    for runs in held.values():
        match entry:
            case Finished(code="ok", run_id=run_id) | Withdrawn(code="ok", run_id=run_id):
                runs.pop(run_id, None)
            case SessionOver(node=node, incarnation=incarnation):
                for run_id in [run_id for run_id, holder in runs.items() if holder == (node, incarnation)]:
                    del runs[run_id]


def charged_is_held(history: History) -> Iterator[Violation]:
    """I7: what a team is charged with is what nodes hold of its runs: each claim was counted and released once."""
    for state in history.states:
        held = Counter(run.team for run in state.runs.values() if run.state in HELD and run.lease is None)
        for team, charged in state.held.items():
            if charged != held[team]:
                what = f"{state.node}: team {team} is charged with {charged} claims, nodes hold {held[team]}"
                yield Violation(promise="I7", what=what)

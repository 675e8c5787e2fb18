"""I7: what a team may have under way at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.history import Claimed, Finished, History, QuotaSet, SessionOver, Violation, Withdrawn
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
            case Finished(code="ok", run_id=run_id) | Withdrawn(code="ok", run_id=run_id):
                for runs in held.values():
                    runs.pop(run_id, None)
            case SessionOver(node=node, incarnation=incarnation):
                for runs in held.values():
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

"""I10: reads are linearizable, and local ones are no older than they say.

Each name of a team is a register: free, or held by a job. Creates, deletes, reads and lists of it must go in some
order, each between its call and its answer (linearizability.py). A local read counts as one that was called as much
earlier as it says it may be stale. And answers name the index that they stand at, which orders them too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.history import History, Operation, Violation
from chaos.linearizability import CONFIGURATIONS_MAX, Call, linearize
from node.interface import FINAL_STATES

DRIFT = 0.01
"""How wrong the clock may run by which a node measures its staleness."""
FREE = ""
NAME_TAKEN = 409
NOT_FOUND = 404


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """What was done with a name, and what was answered. `job_id` of a look: who was found to hold it; FREE if nobody;
    None if it was somebody."""

    what: Literal["create", "delete", "change", "holds", "holds_not", "look"]
    job_id: str | None
    version: int | None = 1
    """Of a change: None if nobody was told."""
    known: bool = True
    """False: it may have changed nothing."""

    def __str__(self) -> str:
        seen = "nobody" if self.job_id == FREE else f"version {self.version} of {self.job_id}"
        return f"a look that found {seen}" if self.what in ("look", "holds") else f"{self.what} {self.job_id}"


Holder = tuple[str, int]
"""(job id, version); (FREE, 0) if the name is free; ("?" and a number, 1): a job whose id nobody was told."""


class NameRegister:
    """One name of a team."""

    initial: Holder = (FREE, 0)

    def after(self, state: Holder, act: Act) -> Holder | None:
        holder, _ = state
        match act.what:
            case "create":
                made = (act.job_id or "?", 1)
                return made if holder == FREE else _unless_known(state, act)
            case "delete":
                return self.initial if holder == act.job_id else _unless_known(state, act)
            case "change":
                return _changed(state, act)
            case "holds_not":
                return state if holder != act.job_id else None
            case _:
                return _looked_at(state, act)

    def only_looks(self, act: Act) -> bool:
        return act.what not in ("create", "delete", "change")


def _unless_known(state: Holder, act: Act) -> Holder | None:
    return None if act.known else state


def _changed(state: Holder, act: Act) -> Holder | None:
    """By one version; or by none, if the job was that way already."""
    holder, version = state
    if holder.startswith("?") and act.known and act.version is not None:
        return (act.job_id or holder, act.version)
    if holder != act.job_id:
        return _unless_known(state, act)
    if act.version is None:
        return (holder, version + 1)
    return (holder, act.version) if act.version in (version, version + 1) else None


def _looked_at(state: Holder, act: Act) -> Holder | None:
    """A look may tell the id of a job that was made without anybody being told."""
    holder, _ = state
    if act.job_id is None:
        return state if holder != FREE else None
    found = (act.job_id, (act.version or 0) if act.job_id != FREE else 0)
    if holder.startswith("?") and act.job_id != FREE:
        return found
    return state if state == found else None


def names_are_registers(history: History) -> Iterator[Violation]:
    """I10: whatever clients were told of a name can have happened in one order; so two creates of a name never both
    succeed, and no read is stale."""
    for name, calls in sorted(calls_by_name(history).items()):
        result = linearize(calls, NameRegister(), CONFIGURATIONS_MAX)
        if not result.decided:
            yield Violation(promise="I10", what=f"name {name}: too many orders to look at", decided=False)
        elif result.unexplained is not None:
            call = result.unexplained
            held = " or ".join(holder or "nobody" for holder, _ in result.states)
            what = f"name {name}: {call.act} at {call.invoked_s:.3f} to {call.returned_s:.3f}, held by {held}"
            yield Violation(promise="I10", what=what)


def calls_by_name(history: History) -> dict[str, list[Call[Act]]]:
    """Every operation as calls of the names that it says something about."""
    names = _names(history.operations)
    calls: defaultdict[str, list[Call[Act]]] = defaultdict(list)
    for number, operation in enumerate(history.operations):
        for name, act in _acts(operation, number, names):
            invoked_s = operation.invoked_s - operation.stale_s * (1 + DRIFT)
            returned_s = float("inf") if operation.answer == "info" else operation.ended_s
            calls[name].append(Call(invoked_s=invoked_s, returned_s=returned_s, act=act))
    return calls


def _names(operations: Sequence[Operation]) -> dict[str, str]:
    """Job id -> name, of all jobs that anybody was told of."""
    names: dict[str, str] = {}
    for operation in operations:
        if operation.kind == "create" and operation.subject is not None and operation.name is not None:
            names[operation.subject] = operation.name
        if operation.seen is not None:
            names.update({job_id: name for job_id, (name, _) in operation.seen.jobs.items()})
    return names


def _acts(operation: Operation, number: int, names: dict[str, str]) -> Iterator[tuple[str, Act]]:
    match operation.kind:
        case "create" if operation.name is not None:
            act = _create_act(operation, number)
            if act is not None:
                yield operation.name, act
        case "delete" | "read" if operation.subject in names:
            act = _delete_act(operation) if operation.kind == "delete" else _read_act(operation)
            if act is not None:
                yield names[operation.subject], act
        case "pause" | "resume" | "update" if operation.subject in names:
            act = _change_act(operation)
            if act is not None:
                yield names[operation.subject], act
        case "list":
            yield from _list_acts(operation, set(names.values()))


def _create_act(operation: Operation, number: int) -> Act | None:
    if operation.answer == "fail":
        return Act(what="look", job_id=None) if operation.refusal == NAME_TAKEN else None
    known = operation.answer == "ok"
    return Act(what="create", job_id=operation.subject if known else f"?{number}", known=known)


def _delete_act(operation: Operation) -> Act | None:
    if operation.answer == "fail":
        return Act(what="holds_not", job_id=operation.subject) if operation.refusal == NOT_FOUND else None
    return Act(what="delete", job_id=operation.subject, known=operation.answer == "ok")


def _change_act(operation: Operation) -> Act | None:
    if operation.answer == "fail":
        return Act(what="holds_not", job_id=operation.subject) if operation.refusal == NOT_FOUND else None
    known = operation.answer == "ok"
    return Act(what="change", job_id=operation.subject, version=operation.version if known else None, known=known)


def _read_act(operation: Operation) -> Act | None:
    seen = operation.seen
    if operation.answer != "ok" or seen is None or operation.subject is None:
        return None
    if operation.subject in seen.jobs:
        return Act(what="holds", job_id=operation.subject, version=seen.jobs[operation.subject][1])
    return Act(what="holds_not", job_id=operation.subject)


def _list_acts(operation: Operation, names: set[str]) -> Iterator[tuple[str, Act]]:
    if operation.answer != "ok" or operation.seen is None:
        return
    listed = {name: (job_id, version) for job_id, (name, version) in operation.seen.jobs.items()}
    for name, (job_id, version) in listed.items():
        yield name, Act(what="look", job_id=job_id, version=version)
    if operation.seen.complete:
        for name in names - listed.keys():
            yield name, Act(what="look", job_id=FREE)


def one_holder_a_list(history: History) -> Iterator[Violation]:
    """I10: no list holds two jobs of one name."""
    for operation in history.operations:
        if operation.seen is not None:
            names = [name for name, _ in operation.seen.jobs.values()]
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield Violation(promise="I10", what=f"a list at {operation.ended_s:.3f} holds {name} more than once")


def indexes_rise(history: History) -> Iterator[Violation]:
    """I10: a read stands at no lower index than any read that was answered before it was called; a local one than any
    that was answered longer before than it says it may be stale."""
    answered = sorted(
        (operation.ended_s, operation.seen.applied_index)
        for operation in history.operations
        if operation.seen is not None and operation.seen.applied_index is not None
    )
    called = sorted(_reads_with_index(history.operations), key=lambda read: read[:2])
    highest, place = 0, 0
    for since_s, index, operation in called:
        while place < len(answered) and answered[place][0] < since_s:
            highest = max(highest, answered[place][1])
            place += 1
        if index < highest:
            what = (
                f"a read on {operation.node} at {operation.invoked_s:.3f} stood at {index}, another before at {highest}"
            )
            yield Violation(promise="I10", what=what)


def _reads_with_index(operations: Sequence[Operation]) -> Iterator[tuple[float, int, Operation]]:
    for operation in operations:
        seen = operation.seen
        if seen is not None and seen.applied_index is not None:
            yield operation.invoked_s - operation.stale_s * (1 + DRIFT), seen.applied_index, operation


def same_index_same_answer(history: History) -> Iterator[Violation]:
    """I10, I6: two answers that name one index agree about every job that both say something about."""
    versions: dict[tuple[int, str], int] = {}
    listed: dict[int, set[str]] = {}
    for operation in history.operations:
        seen = operation.seen
        if seen is None or seen.applied_index is None:
            continue
        for job_id, (_, version) in seen.jobs.items():
            before = versions.setdefault((seen.applied_index, job_id), version)
            if before != version:
                what = f"job {job_id} has versions {before} and {version} at index {seen.applied_index}"
                yield Violation(promise="I10", what=what)
        if operation.kind == "list" and seen.complete:
            for job_id in sorted(seen.jobs.keys() ^ listed.setdefault(seen.applied_index, set(seen.jobs))):
                what = f"job {job_id} is and is not there at index {seen.applied_index}"
                yield Violation(promise="I10", what=what)


def runs_stay_known(history: History) -> Iterator[Violation]:
    """I10: a run that a client was told of is found by every later read, and never goes back: its token does not fall,
    and what is final stays as it is."""
    made_s = {
        operation.subject: operation.ended_s
        for operation in history.operations
        if operation.kind == "run_now" and operation.answer == "ok"
    }
    last: dict[str, tuple[float, str, int]] = {}
    for operation in sorted(history.operations, key=lambda one: one.ended_s):
        if operation.kind != "read_run" or operation.answer != "ok" or operation.subject is None:
            continue
        seen, run_id = operation.seen, operation.subject
        if seen is None or operation.local:
            continue
        if seen.run is None:
            if operation.invoked_s > made_s.get(run_id, float("inf")):
                yield Violation(promise="I10", what=f"run {run_id} was not found at {operation.ended_s:.3f}")
            continue
        state, token = seen.run
        ended_s, state_before, token_before = last.get(run_id, (float("inf"), state, token))
        back = token < token_before or (state_before in FINAL_STATES and state != state_before)
        if operation.invoked_s > ended_s and back:
            what = f"run {run_id} is {state}, token {token}, and was {state_before}, token {token_before}, before"
            yield Violation(promise="I10", what=what)
        last[run_id] = (operation.ended_s, state, token)

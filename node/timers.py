"""The release timers: every claim of this node, and the instant at which its attempt starts.

`step(now_ms, events) -> Due`. One heap for all claims: ten thousand that are due in one second are one step, not ten
thousand timers. Events only hint: what this node holds is read from the state at start and compared with it from time
to time (`Reconciled`), so that a lost event costs delay, never a run.

A claim is known by (run, token). It is `waiting` for its time, then `started` until its result is committed. A read
of the state may be older than what this node did since, so a finished claim is remembered until a read no longer
shows it: else the same claim would be started twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from statemachine.commands import RunClaimed

DUE_MAX = 512
"""Claims that one step hands out; in a burst the results of some travel while others start."""


class ClaimKey(NamedTuple):
    """One claim of a run: the token rises with every claim."""

    run_id: str
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """The state machine handed this node a claim, at this applied index."""

    index: int
    claim: RunClaimed


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A claim's result, or its withdrawal, was answered: it is not ours any more."""

    key: ClaimKey


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded:
    """A job was changed or deleted: unstarted claims of versions before `version` are withdrawn."""

    job_id: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """A claim is to be ended: if it has not started it is withdrawn, and never will."""

    key: ClaimKey


@dataclass(frozen=True, kw_only=True, slots=True)
class Lapsed:
    """This node's session ended: nothing that it held may start."""

    incarnation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """The node drains: nothing further starts, and what has not started is withdrawn, now and later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconciled:
    """All claims of the session as the state shows them at `index`, and those among them that it does not know."""

    index: int
    shown: Set[ClaimKey]
    unknown: Sequence[RunClaimed] = ()
    stopped: Sequence[ClaimKey] = ()
    """Those of them that are to be ended: the event that said so may have been lost."""


TimerEvent = Claimed | Finished | Superseded | Stopped | Lapsed | Leaving | Reconciled


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What a step gave: claims to start, in the order in which they should; unstarted ones to withdraw for good,
    because their definition is gone, or because somebody stopped them; unstarted ones to give back, because this node
    leaves."""

    start: Sequence[RunClaimed] = ()
    superseded: Sequence[RunClaimed] = ()
    stopped: Sequence[RunClaimed] = ()
    given_back: Sequence[RunClaimed] = ()


@dataclass(slots=True)
class _Held:
    index: int
    claim: RunClaimed
    started: bool = False


class ReleaseTimers:
    """Holds the claims of one session at a time; `session` is set when a new one was opened."""

    def __init__(self) -> None:
        self.session: int | None = None
        self._held: dict[ClaimKey, _Held] = {}
        self._heap: list[tuple[int, int, ClaimKey]] = []
        self._done: dict[ClaimKey, int] = {}
        self._leaving = False
        self._reconciled_index = 0

    def __len__(self) -> int:
        return len(self._held)

    def open(self, session: int) -> None:
        """A new session: what older ones held is over."""
        self._forget_all()
        self.session = session

    def knows(self, key: ClaimKey) -> bool:
        """Whether a read of the state need not explain this claim: it is held, or finished and not yet seen gone."""
        return key in self._held or key in self._done

    def next_release_ms(self) -> int | None:
        """The earliest instant at which a claim may be due; may be early when that claim was dropped meanwhile."""
        return self._heap[0][0] if self._heap else None

    def step(self, now_ms: int, events: Sequence[TimerEvent] = ()) -> Due:
        """Take in what happened and hand out what is due, DUE_MAX claims at most. A claim is handed out once."""
        versions: dict[str, int] = {}
        stopped: list[RunClaimed] = []
        for event in events:
            if isinstance(event, Superseded):
                versions[event.job_id] = max(versions.get(event.job_id, 0), event.version)
            elif isinstance(event, Stopped):
                stopped += self._pass_over_one(event.key)
            else:
                self._take(event)
        superseded = (
            self._pass_over(lambda claim: claim.job_version < versions.get(claim.job_id, 0)) if versions else ()
        )
        given_back = self._pass_over(lambda claim: True) if self._leaving else ()
        return Due(start=self._pop_due(now_ms), superseded=superseded, stopped=stopped, given_back=given_back)

    def _take(self, event: TimerEvent) -> None:
        match event:
            case Claimed():
                if event.index > self._reconciled_index:
                    self._hold(event.index, event.claim)
            case Finished():
                held = self._held.pop(event.key, None)
                if held is not None:
                    self._done[event.key] = held.index
            case Lapsed() if event.incarnation == self.session:
                self._forget_all()
                self.session = None
            case Leaving():
                self._leaving = True
            case Reconciled():
                self._reconcile(event)
            case _:
                pass

    def _hold(self, index: int, claim: RunClaimed) -> None:
        key = ClaimKey(claim.run_id, claim.token)
        if claim.session != self.session or key in self._held or key in self._done:
            return
        self._held[key] = _Held(index, claim)
        heapq.heappush(self._heap, (claim.release_ms, -claim.priority, key))

    def _pass_over(self, matches: Callable[[RunClaimed], bool]) -> list[RunClaimed]:
        """Unstarted claims that match: they stay held until their withdrawal is answered, but never start."""
        taken = []
        for held in self._held.values():
            if not held.started and matches(held.claim):
                held.started = True
                taken.append(held.claim)
        return taken

    def _pass_over_one(self, key: ClaimKey) -> list[RunClaimed]:
        held = self._held.get(key)
        if held is None or held.started:
            return []
        held.started = True
        return [held.claim]

    def _reconcile(self, event: Reconciled) -> None:
        """Hold what the state shows and this node does not know; drop what the state has taken away since."""
        if event.index < self._reconciled_index:
            return
        self._reconciled_index = event.index
        for key in [
            key for key, held in self._held.items() if not held.started and self._is_gone(key, held.index, event)
        ]:
            del self._held[key]
        for key in [key for key, index in self._done.items() if self._is_gone(key, index, event)]:
            del self._done[key]
        for claim in event.unknown:
            self._hold(event.index, claim)

    @staticmethod
    def _is_gone(key: ClaimKey, index: int, event: Reconciled) -> bool:
        """A read older than the claim says nothing about it."""
        return index <= event.index and key not in event.shown

    def _pop_due(self, now_ms: int) -> list[RunClaimed]:
        due: list[RunClaimed] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < DUE_MAX:
            held = self._held.get(heapq.heappop(self._heap)[2])
            if held is not None and not held.started:
                held.started = True
                due.append(held.claim)
        due.sort(key=lambda claim: (-claim.priority, claim.release_ms))
        return due

    def _forget_all(self) -> None:
        self._held.clear()
        self._heap.clear()
        self._done.clear()

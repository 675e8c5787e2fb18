"""Whether what clients saw of one object can be explained by its calls having taken effect one at a time, each at some
moment between its invocation and its return.

Just-in-time linearization (Gavin Lowe, "Testing for linearizability", 2017; the breadth-first search that Knossos has
too): go through the events in order of time and keep every configuration that is still possible, which is a state and
the calls under way that have taken effect in it. A call takes effect only when something that returns needs it. When
nothing explains a return, the history is not linearizable. The search may explode; it stops at a named limit, and then
nothing is decided.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

CONFIGURATIONS_MAX = 200_000
"""Looked at for one object; the usual history needs a few for each call."""

State = TypeVar("State", bound=Hashable)
Act = TypeVar("Act")
Act_contra = TypeVar("Act_contra", contravariant=True)


class Model(Protocol[State, Act_contra]):
    """A sequential object."""

    @property
    def initial(self) -> State: ...

    def after(self, state: State, act: Act_contra) -> State | None:
        """The state after the act, or None if the act cannot have gone so in this state."""
        ...

    def only_looks(self, act: Act_contra) -> bool:
        """It changes no state that it is possible in: it may as well take effect as early as it can."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[Act]):
    """`returned_s` is infinite if it is not known what became of the call: it may take effect at any time, or never."""

    invoked_s: float
    returned_s: float
    act: Act

    @property
    def is_lost(self) -> bool:
        return self.returned_s == float("inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Linearized(Generic[State, Act]):
    """`unexplained`: the first return that nothing explains, and `states`: those that were possible before it.
    `decided` False: the search was given up."""

    unexplained: Call[Act] | None = None
    states: Sequence[State] = ()
    decided: bool = True


@dataclass(frozen=True, slots=True)
class _Configuration(Generic[State]):
    """What may be. Calls under way that have taken effect: `done`, of those that return; `lost`, of those that do
    not."""

    state: State
    done: frozenset[int]
    lost: frozenset[int]


def linearize(
    calls: Sequence[Call[Act]], model: Model[State, Act], configurations_max: int = CONFIGURATIONS_MAX
) -> Linearized[State, Act]:
    """Calls that touch in time count as concurrent. `model`'s states are hashable and None is not one of them."""
    search = _Search(calls, model, configurations_max)
    for number, returns in _events(calls):
        if not returns:
            search.pending.append(number)
            continue
        before = search.possible
        search.take_return(number)
        if search.left < 0:
            return Linearized(decided=False)
        if not search.possible:
            states = sorted({one.state for one in before}, key=repr)
            return Linearized(unexplained=calls[number], states=states)
    return Linearized()


def _events(calls: Sequence[Call[Act]]) -> Iterable[tuple[int, bool]]:
    """(number of the call, whether it returns), in order of time, invocations first."""
    events = [(call.invoked_s, False, number) for number, call in enumerate(calls)]
    events += [(call.returned_s, True, number) for number, call in enumerate(calls) if not call.is_lost]
    return [(number, returns) for _, returns, number in sorted(events)]


class _Search(Generic[State, Act]):
    """`left`: how many configurations may still be looked at; below zero it is given up."""

    def __init__(self, calls: Sequence[Call[Act]], model: Model[State, Act], configurations_max: int) -> None:
        self._calls = calls
        self._model = model
        self.left = configurations_max
        self.pending: list[int] = []
        self.possible: list[_Configuration[State]] = [_Configuration(model.initial, frozenset(), frozenset())]

    def take_return(self, number: int) -> None:
        """Keep what is possible in which the call has taken effect; let others take effect only where that helps."""
        kept: _Least[State] = _Least()
        seen: _Least[State] = _Least(self.possible)
        open_ = deque(self.possible)
        while open_ and self.left >= 0:
            self.left -= 1
            found = self._looked(open_.popleft())
            if number in found.done:
                kept.add(replace(found, done=found.done - {number}))
                continue
            open_.extend(following for following in self._following(found) if seen.add(following))
        self.pending.remove(number)
        self.possible = kept.all()

    def _looked(self, found: _Configuration[State]) -> _Configuration[State]:
        """All calls under way that only look have looked, if what they saw is there: that rules out nothing."""
        looking = {
            number
            for number in self.pending
            if number not in found.done and self._model.only_looks(self._calls[number].act)
            if self._model.after(found.state, self._calls[number].act) == found.state
        }
        return replace(found, done=found.done | looking) if looking else found

    def _following(self, found: _Configuration[State]) -> Iterable[_Configuration[State]]:
        for number in self.pending:
            if number in found.done or number in found.lost:
                continue
            state = self._model.after(found.state, self._calls[number].act)
            if state is None:
                continue
            if self._calls[number].is_lost:
                yield _Configuration(state, found.done, found.lost | {number})
            else:
                yield _Configuration(state, found.done | {number}, found.lost)


class _Least(Generic[State]):
    """Configurations without those that another one makes needless: whatever can come of one can come of another that
    is like it but for lost calls which have not taken effect yet, since they may still, or never."""

    def __init__(self, first: Iterable[_Configuration[State]] = ()) -> None:
        self._lost: defaultdict[tuple[State, frozenset[int]], list[frozenset[int]]] = defaultdict(list)
        for one in first:
            self.add(one)

    def add(self, one: _Configuration[State]) -> bool:
        """Whether it was needed."""
        known = self._lost[one.state, one.done]
        if any(lost <= one.lost for lost in known):
            return False
        known[:] = [lost for lost in known if not one.lost <= lost]
        known.append(one.lost)
        return True

    def all(self) -> list[_Configuration[State]]:
        return [_Configuration(state, done, lost) for (state, done), known in self._lost.items() for lost in known]

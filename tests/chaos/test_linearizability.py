"""The search agrees with trying every order, on small histories; and it knows when to give up."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.linearizability import Call, linearize

Act = tuple[str, int]
INFINITE = float("inf")


class Register:
    """A number that is written and read; a write that is not known to have happened may also be refused."""

    initial = 0

    def after(self, state: int, act: Act) -> int | None:
        what, value = act
        if what == "write":
            return value
        return state if state == value else None

    def only_looks(self, act: Act) -> bool:
        return act[0] == "read"


def call(invoked_s: float, returned_s: float, what: str, value: int) -> Call[Act]:
    return Call(invoked_s=invoked_s, returned_s=returned_s, act=(what, value))


def holds(*calls: Call[Act]) -> bool:
    return linearize(calls, Register()).unexplained is None


def test_a_read_sees_the_last_write() -> None:
    assert holds(call(0, 1, "write", 1), call(2, 3, "read", 1))
    assert not holds(call(0, 1, "write", 1), call(2, 3, "read", 0))


def test_calls_at_once_go_either_way() -> None:
    assert holds(call(0, 5, "write", 1), call(1, 2, "read", 0), call(3, 4, "read", 1))
    assert not holds(call(0, 5, "write", 1), call(1, 2, "read", 1), call(3, 4, "read", 0))


def test_calls_that_touch_are_at_once() -> None:
    assert holds(call(0, 1, "write", 1), call(1, 2, "read", 0))


def test_what_never_returned_may_take_effect_late_or_never() -> None:
    lost = call(0, INFINITE, "write", 7)
    assert holds(lost, call(1, 2, "read", 0), call(8, 9, "read", 7))
    assert holds(lost, call(1, 2, "read", 0), call(8, 9, "read", 0))
    assert not holds(lost, call(1, 2, "read", 7), call(8, 9, "read", 0))


def test_it_says_which_call_nothing_explains_and_what_was_possible() -> None:
    odd = call(4, 5, "read", 3)
    result = linearize([call(0, 3, "write", 1), call(0, 3, "write", 2), odd], Register())
    assert result.unexplained is odd
    assert result.states == [1, 2]


def test_a_search_that_grows_too_large_decides_nothing() -> None:
    at_once = [call(0, 3, "write", value) for value in range(1, 15)]
    result = linearize([*at_once, call(1, 2, "read", 99)], Register(), configurations_max=1000)
    assert not result.decided
    assert result.unexplained is None


def test_many_lost_calls_do_not_make_it_grow() -> None:
    lost = [call(0, INFINITE, "write", value) for value in range(1, 200)]
    reads = [call(value, value + 0.5, "read", value) for value in range(1, 200)]
    result = linearize([*lost, *reads, call(300, 301, "read", 1)], Register(), configurations_max=200_000)
    assert result.decided
    assert result.unexplained == call(300, 301, "read", 1)


@st.composite
def few_calls(draw: st.DrawFn) -> list[Call[Act]]:
    calls = []
    for _ in range(draw(st.integers(1, 5))):
        invoked, takes = draw(st.integers(0, 8)), draw(st.integers(1, 6))
        returned = INFINITE if draw(st.booleans()) and draw(st.booleans()) else float(invoked + takes)
        calls.append(call(invoked, returned, draw(st.sampled_from(["read", "write"])), draw(st.integers(0, 2))))
    return calls


@settings(max_examples=400, deadline=None)
@given(calls=few_calls())
def test_it_agrees_with_trying_every_order(calls: list[Call[Act]]) -> None:
    assert holds(*calls) == any_order(calls)


def any_order(calls: list[Call[Act]]) -> bool:
    answered = {number for number, one in enumerate(calls) if one.returned_s != INFINITE}
    return any(
        goes(calls, order)
        for size in range(len(answered), len(calls) + 1)
        for order in permutations(range(len(calls)), size)
        if answered <= set(order)
    )


def goes(calls: list[Call[Act]], order: tuple[int, ...]) -> bool:
    state = 0
    for place, number in enumerate(order):
        if any(calls[later].returned_s < calls[number].invoked_s for later in order[place + 1 :]):
            return False
        after = Register().after(state, calls[number].act)
        if after is None:
            return False
        state = after
    return True

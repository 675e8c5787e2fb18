"""The order of a tick, its wake-ups, and what an error in it does."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from sample_status import STATUS

from raftlog.driver import Driver
from raftlog.node import Outgoing, Ready

ONE = Outgoing("n2", {"type": "barrier", "id": 1})
TWO = Outgoing("n3", {"type": "barrier", "id": 2})


class Selector(selectors.DefaultSelector):
    """Notes how long it was to wait, and does not."""

    waits: list[float | None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits.append(timeout)
        return super().select(0)


class Script:
    """Node, peers and server at once: everything that the driver calls is written down in one list."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.now_s = 100.0
        self.deadlines = {"node": 101.0, "peers": 102.0, "server": 103.0}
        self.finished: str | None = None
        self.failing = ""
        self.out: dict[str, Any] = {"immediate": [ONE], "held": [TWO]}
        self.selector = Selector()
        self.selector.waits = []
        self.driver = Driver(
            node=self,
            peers=self,
            server=Server(self),
            space=Space(self),
            selector=self.selector,
            clock=lambda: self.now_s,  # type: ignore[arg-type]
        )

    def call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise RuntimeError(name)

    def step(self) -> Ready:
        self.call("step")
        return Ready(**self.out, results=[], barriers=[], events=[], status=STATUS, status_changed=False)

    def commit(self) -> None:
        self.call("commit")

    def next_deadline(self) -> float:
        return self.deadlines["node"]

    def turn(self) -> None:
        self.call("peers turn")

    def next_turn_s(self) -> float:
        return self.deadlines["peers"]

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.call(f"send {message['id']}")

    def flush(self) -> None:
        self.call("flush")

    def stand_aside(self, aside: bool) -> None:
        self.call(f"stand aside: {aside}")


class Server:
    def __init__(self, script: Script) -> None:
        self.script = script

    @property
    def finished(self) -> str | None:
        return self.script.finished

    def turn(self) -> None:
        self.script.call("server turn")

    def next_turn_s(self) -> float:
        return self.script.deadlines["server"]

    def deliver(self, ready: Ready) -> None:
        self.script.call("deliver")
        self.script.finished = "done"


class Space:
    """It looks at the disk between two transactions: after the commit, before anything else comes in."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def completed(self, ready: Ready) -> Ready:
        return ready

    def turn(self) -> list[Outgoing]:
        self.script.call("space turn")
        return []

    def stands_aside(self) -> bool:
        return False


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.selector.close()


def test_what_is_held_leaves_after_the_commit_and_results_last(script: Script) -> None:
    assert script.driver.run() == "done"
    assert script.calls == [
        "peers turn", "server turn", "step", "send 1", "flush", "commit", "send 2", "flush", "deliver",
        "space turn", "stand aside: False",
    ]  # fmt: skip


def test_nothing_to_send_costs_no_flush(script: Script) -> None:
    script.out = {"immediate": [], "held": []}
    script.driver.turn()
    assert "flush" not in script.calls


def test_input_is_taken_before_the_step(script: Script) -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        script.selector.register(one, selectors.EVENT_READ, lambda mask: script.call("input"))
        script.driver.turn()
    assert script.calls[:4] == ["input", "peers turn", "server turn", "step"]


@pytest.mark.parametrize("first", ["node", "peers", "server"])
def test_it_sleeps_exactly_until_the_first_deadline(script: Script, first: str) -> None:
    script.deadlines[first] = 100.25
    script.driver.turn()
    assert script.selector.waits == [0.25]


def test_it_does_not_sleep_when_work_is_left_over(script: Script) -> None:
    script.deadlines["node"] = 99.0
    script.driver.turn()
    assert script.selector.waits == [0.0]


@pytest.mark.parametrize("failing", ["peers turn", "server turn", "step", "send 1", "flush"])
def test_an_error_before_the_commit_leaves_no_commit_behind(script: Script, failing: str) -> None:
    script.failing = failing
    with pytest.raises(RuntimeError):
        script.driver.run()
    assert script.calls[-1] == failing
    assert "commit" not in script.calls
    assert "send 2" not in script.calls


def test_an_error_in_the_commit_acknowledges_nothing(script: Script) -> None:
    script.failing = "commit"
    with pytest.raises(RuntimeError):
        script.driver.run()
    assert script.calls[-1] == "commit"

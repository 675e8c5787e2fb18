"""The simulated network by itself: what a link that was narrow does when it is wide again."""

from __future__ import annotations

import pytest

from chaos.simulated_network import Network
from chaos.simulated_plan import Plan
from chaos.virtual_loop import VirtualLoop
from raftlog.node import Message


class Receiver:
    """Implements Station."""

    life = 1

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.came: list[tuple[float, int]] = []

    def connected(self, peer: str) -> int:
        return 1

    def disconnected(self, peer: str, number: int) -> None: ...

    def deliver(self, source: str, number: int, message: Message) -> None:
        self.came.append((self._loop.time(), message["number"]))


def test_what_waited_for_a_narrow_link_arrives_in_order_when_it_is_wide_again() -> None:
    loop = VirtualLoop()  # type: ignore[abstract]  # no sockets, signals or child processes
    plan = Plan.draw(1, nodes=3, steps=0, faults=("narrow",))
    network = Network(loop, plan, 1, lambda *facts: None)
    receiver = Receiver(loop)
    network.stations |= {"n1": Receiver(loop), "n2": receiver}
    network.up("n1")
    loop.run_until(1.0)
    network.narrow_links({("n1", "n2")}, 2000.0, 3.0)
    network.send("n1", [("n2", {"number": number, "data": b"x" * 1000}) for number in range(100)])
    loop.run_until(3.9)
    slow = [number for _, number in receiver.came]
    assert 4 <= len(slow) <= 6
    loop.run_until(4.1 + plan.delay_tail_s)
    network.send("n1", [("n2", {"number": 100})])
    loop.run_until(60.0)
    assert [number for _, number in receiver.came] == list(range(101))
    assert receiver.came[99][0] == pytest.approx(4.0, abs=0.01)

"""Ports that two benches on one machine do not take from each other."""

import socket

import pytest

import bench.ports
from bench.ports import BLOCK, PORT_FIRST, PORT_LAST, PortBlock


def test_ports_differ_and_lie_below_the_ephemeral_range() -> None:
    block = PortBlock(6)
    assert len(set(block.ports)) == 6
    assert all(PORT_FIRST <= port < PORT_LAST for port in block.ports)
    block.release()


def test_reserved_ports_are_nobody_elses_though_no_one_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.ports, "PORT_LAST", PORT_FIRST + 2 * BLOCK)
    one, other = PortBlock(6), PortBlock(6)
    assert not set(one.ports) & set(other.ports)
    with pytest.raises(OSError, match="no block with 6 free ports"):
        PortBlock(6)
    one.release()
    again = PortBlock(6)
    assert again.ports == one.ports
    other.release()
    again.release()


def test_a_port_that_somebody_listens_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.ports, "PORT_LAST", PORT_FIRST + BLOCK)
    first = PortBlock(1)
    first.release()
    with socket.create_server(("127.0.0.1", first.ports[0])):
        second = PortBlock(1)
        assert second.ports != first.ports
        second.release()


def test_a_block_holds_no_more_than_its_size() -> None:
    with pytest.raises(ValueError, match="a block has 16"):
        PortBlock(BLOCK + 1)

"""Addresses of peers: what is accepted, and names that are looked up beside the loop."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from raftlog.addresses import Address, Resolved, Resolver, Target, numeric_target, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7101", Address("127.0.0.1", 7101)),
        ("node-1.example:1", Address("node-1.example", 1)),
        ("[::1]:7101", Address("::1", 7101)),
    ],
)
def test_an_address_is_read_and_shown_alike(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":7101", "host:x", "host:65536", "host:-1", "host:1 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_address(text)


def test_a_numeric_host_needs_no_look_up() -> None:
    assert numeric_target(Address("127.0.0.1", 1)) == Target(socket.AF_INET, ("127.0.0.1", 1))
    assert numeric_target(Address("::1", 1)) == Target(socket.AF_INET6, ("::1", 1))
    assert numeric_target(Address("localhost", 1)) is None


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    resolver = Resolver()
    yield resolver
    resolver.close()


def answer(resolver: Resolver) -> list[Resolved]:
    with selectors.DefaultSelector() as selector:
        selector.register(resolver.wakeup, selectors.EVENT_READ)
        assert selector.select(timeout=10)
    return resolver.take()


def test_a_name_is_looked_up_and_wakes_the_loop(resolver: Resolver) -> None:
    resolver.request("n2", Address("localhost", 7102))
    (resolved,) = answer(resolver)
    assert resolved.peer == "n2"
    assert {target.address[0] for target in resolved.targets} <= {"127.0.0.1", "::1"}
    assert {target.address[1] for target in resolved.targets} == {7102}


@pytest.mark.parametrize("host", ["a" * 64 + ".invalid", "..", "\ud800"])
def test_a_name_that_is_none_gives_the_reason(resolver: Resolver, host: str) -> None:
    resolver.request("n2", Address(host, 7102))
    (resolved,) = answer(resolver)
    assert resolved.targets == ()
    assert "no address for" in resolved.failure


def test_nothing_waits_before_an_answer_and_closing_is_harmless_then(resolver: Resolver) -> None:
    assert resolver.take() == []
    resolver.close()
    resolver._look_up("n2", Address("127.0.0.1", 1))
    assert resolver.take() == []

"""What stands twice because an import border lies between: the two must say the same, or keep their relation."""

from __future__ import annotations

import pytest

import executor.http_signature
import httpapi.client
import httpapi.guard
import httpapi.render
import node.config
import node.effective
import node.proposing
import node.reads
import node.work
import raftlog.disk
import statemachine.tables


def test_a_client_waits_longer_than_a_node_takes() -> None:
    delete_s = node.proposing.WRITE_TIMEOUT_S + node.reads.BARRIER_TIMEOUT_S + node.effective.EFFECTIVE_TIMEOUT_S
    assert delete_s < httpapi.client.TIMEOUT_S


def test_what_the_api_shows_for_a_secret_is_refused_as_one() -> None:
    assert httpapi.render.SECRET_MASK == executor.http_signature.MASK
    with pytest.raises(ValueError, match="write the secret itself"):
        executor.http_signature.signing_key(httpapi.render.SECRET_MASK)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.8.9.10",
        "::1",
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "example.org",
        "",
        "169.254.1.1",
        "0x7f.1",
    ],
)
def test_api_and_settings_agree_on_what_is_loopback(host: str) -> None:
    assert httpapi.guard._is_loopback(host) is node.config.is_loopback(host)


@pytest.mark.parametrize("address", ["127.0.0.1:8101", "[::1]:8101", "localhost:1", "node.example:65535"])
def test_api_and_settings_agree_on_the_host_of_an_address(address: str) -> None:
    assert httpapi.guard._host_of(address) == node.config.split_address("http", address)[0]


@pytest.mark.parametrize("unix_ms", [0, 1, 999, 1_796_000_400_000, 1_796_000_400_007, 4_102_444_800_999, -1])
def test_a_run_and_its_target_are_told_the_same_due_time(unix_ms: int) -> None:
    assert httpapi.render.instant(unix_ms) == node.work.rfc3339(unix_ms)


def test_both_openers_of_the_environment_ask_for_the_same() -> None:
    assert raftlog.disk.DATABASES_MAX == statemachine.tables.DATABASES_MAX
    assert raftlog.disk.READERS_MAX == statemachine.tables.READERS_MAX
    assert raftlog.disk.MAP_BYTES == statemachine.tables.MAP_SIZE_BYTES

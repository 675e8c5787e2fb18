"""Settings: the relations between them, and what a node is told at its start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.config import ConfigError, NodeConfig, ServeSettings, is_loopback, read_secret, socket_path, split_address

SETTINGS = ServeSettings(
    data_dir=Path("/nowhere"),
    node_id="n1",
    http="127.0.0.1:8101",
    raft="127.0.0.1:7101",
    peers={"n1": "127.0.0.1:7101", "n2": "127.0.0.1:7102"},
    cluster_secret_file=Path("/nowhere/secret"),
)


def test_the_defaults_of_the_command_line_are_those_of_the_node() -> None:
    SETTINGS.validate()
    config = NodeConfig(node="n", http="h", raft="r")
    assert (SETTINGS.slots, SETTINGS.ahead) == (config.slots, config.ahead)


def test_a_small_node_has_no_more_slots_for_containers_than_slots() -> None:
    assert SETTINGS.node_config().kind_slots == {"container": 32}
    assert replace(SETTINGS, slots=8, command_slots=2).node_config().kind_slots == {"container": 8, "command": 2}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"http": "0.0.0.0:8101"}, "--insecure"),
        ({"raft": "10.0.0.1:7101", "peers": {"n1": "10.0.0.1:7101"}}, "--insecure"),
        ({"http": "127.0.0.1"}, "HOST:PORT"),
        ({"http": "127.0.0.1:0"}, "HOST:PORT"),
        ({"http": "127.0.0.1:99999"}, "HOST:PORT"),
        ({"http": ":8101"}, "HOST:PORT"),
        ({"container_slots": 9, "slots": 8}, "container_slots: must be 0 to slots"),
        ({"command_slots": 9, "slots": 8}, "command_slots"),
        ({"tags": {"-": "x"}}, "tag -=x: the label's name"),
        ({"tags": {str(number): "" for number in range(33)}}, "32 tags"),
        ({"node_id": "n3"}, "must name this node"),
        ({"worker": True}, "n1 is a worker, and so none of them"),
        ({"worker": True, "node_id": "w1", "bootstrap": True}, "bootstrap: is for the members"),
        ({"worker": True, "node_id": "w1", "http": "0.0.0.0:8101"}, "--insecure"),
        ({"raft": "127.0.0.1:7109"}, "but raft is"),
        ({"peers": {"n1": "127.0.0.1:7101", "N/2": "127.0.0.1:7102"}}, "not a node id"),
        ({"peers": {"n1": "127.0.0.1:7101", "n2": "127.0.0.1"}}, "HOST:PORT"),
        ({"peers": {"n1": "127.0.0.1:7101", "n2": "127.0.0.1:7101"}}, "same address"),
        ({"node_id": "N 1"}, "node id"),
        ({"docker_socket": "tcp://10.0.0.1:2375"}, "must be a Unix socket, such as unix:///var/run/docker.sock"),
        ({"docker_socket": "docker.sock"}, "must be a Unix socket"),
        ({"slots": 0}, "slots"),
        ({"ahead": -1}, "ahead"),
    ],
)
def test_settings_that_cannot_work_are_named(change: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        replace(SETTINGS, **change).validate()


def test_a_worker_listens_for_no_other_node() -> None:
    """(M25)"""
    worker = replace(SETTINGS, worker=True, node_id="w1", raft="0.0.0.0:1")
    worker.validate()
    assert (worker.node_config().raft, worker.node_config().takes_buckets) == ("", False)
    assert SETTINGS.node_config().takes_buckets


def test_other_listeners_are_accepted_when_asked_for() -> None:
    replace(SETTINGS, http="0.0.0.0:8101", insecure=True).validate()


@pytest.mark.parametrize(
    "change",
    [{"duties_every_s": 0.9}, {"step_every_s": 0.28}, {"drain_attempts_s": 5.1}, {"late_result_grace_s": 0.5}],
)
def test_relations_of_a_node_are_checked(change: dict[str, float]) -> None:
    config = NodeConfig(node="n1", http="h", raft="r")
    config.validate()
    with pytest.raises(ConfigError):
        replace(config, **change).validate()  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["unix:///run/docker.sock", "/run/docker.sock"])
def test_an_engine_is_named_by_its_socket(address: str) -> None:
    replace(SETTINGS, docker_socket=address).validate()
    assert socket_path(address) == "/run/docker.sock"


def test_addresses_have_two_parts() -> None:
    assert split_address("http", "[::1]:80") == ("::1", 80)
    assert split_address("http", "localhost:80") == ("localhost", 80)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_only_what_nobody_else_reaches_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_secret_is_at_least_sixteen_bytes(tmp_path: Path) -> None:
    """(xxl-job#3938)"""
    path = tmp_path / "secret"
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(path)
    path.write_text("too short\n")
    with pytest.raises(ConfigError, match="16 bytes"):
        read_secret(path)
    path.write_text("x" * 16 + "\n")
    assert read_secret(path) == b"x" * 16

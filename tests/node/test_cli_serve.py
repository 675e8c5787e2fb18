"""`horae serve` and `horae dev`: their settings, from flags and from the environment."""

from __future__ import annotations

import socket
import stat
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from node.cli import main
from node.cli_dev import dev_options, ensure_secret, free_port, state_directory
from node.cli_serve import serve
from node.config import ServeSettings

PEERS = "n1=127.0.0.1:7101,n2=127.0.0.1:7102,n3=127.0.0.1:7103"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeSettings]:
    """The settings that a node was asked to run with; it validates them and leaves with code 7."""
    settings_seen: list[ServeSettings] = []

    def run_node(settings: ServeSettings) -> int:
        settings.validate()
        settings_seen.append(settings)
        return 7

    monkeypatch.setattr("node.serve.run_node", run_node)
    return settings_seen


def horae(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner(env=environment or {}).invoke(main, list(arguments))


def test_every_flag_reaches_the_node(served: list[ServeSettings]) -> None:
    result = horae(
        *("serve", "--data-dir", "/d", "--node-id", "n2", "--http", "0.0.0.0:8102", "--raft", "127.0.0.1:7102"),
        *("--peers", PEERS, "--cluster-secret-file", "/s", "--bootstrap", "--insecure", "--slots", "8"),
        *("--ahead", "9", "--log-level", "debug", "--log-format", "json"),
        *("--docker-socket", "unix:///d.sock", "--allow-host-network"),
        *("--container-slots", "3", "--command-slots", "2", "--tag", "zone=eu", "--tag", "disk=ssd"),
        *("--allow-commands", "--allow-link-local", "--access-log", "--raft-log-mib", "2"),
        *("--log-mib", "3", "--log-store", "s3://logs/prod", "--log-store-endpoint", "http://127.0.0.1:9000"),
        *("--keep-days", "7.5"),
    )
    assert result.exit_code == 7
    assert served == [
        ServeSettings(
            data_dir=Path("/d"),
            node_id="n2",
            http="0.0.0.0:8102",
            raft="127.0.0.1:7102",
            peers={"n1": "127.0.0.1:7101", "n2": "127.0.0.1:7102", "n3": "127.0.0.1:7103"},
            cluster_secret_file=Path("/s"),
            bootstrap=True,
            insecure=True,
            slots=8,
            container_slots=3,
            command_slots=2,
            tags={"zone": "eu", "disk": "ssd"},
            ahead=9,
            raft_log_mib=2,
            log_mib=3,
            log_store="s3://logs/prod",
            log_store_endpoint="http://127.0.0.1:9000",
            keep_days=7.5,
            allow_link_local=True,
            allow_commands=True,
            docker_socket="unix:///d.sock",
            allow_host_network=True,
            access_log=True,
            log_level="debug",
            log_format="json",
        )
    ]


@pytest.mark.parametrize(
    ("tags", "part"), [(["zone"], "NAME=VALUE"), (["a=1", "a=2"], "twice"), (["=x"], "NAME=VALUE")]
)
def test_a_tag_that_is_none_is_wrong_usage(tags: list[str], part: str, served: list[ServeSettings]) -> None:
    flags = [word for tag in tags for word in ("--tag", tag)]
    result = horae(
        "serve", "--data-dir", "/d", "--node-id", "n1", "--peers", PEERS, "--cluster-secret-file", "/s", *flags
    )
    assert (result.exit_code, part in result.output, served) == (2, True, [])


def test_the_environment_stands_in_for_flags(served: list[ServeSettings]) -> None:
    environment = {
        "HORAE_DATA_DIR": "/d",
        "HORAE_NODE_ID": "n1",
        "HORAE_HTTP": "127.0.0.1:9101",
        "HORAE_RAFT": "127.0.0.1:7101",
        "HORAE_PEERS": PEERS,
        "HORAE_CLUSTER_SECRET_FILE": "/s",
        "HORAE_BOOTSTRAP": "1",
        "HORAE_INSECURE": "1",
        "HORAE_SLOTS": "8",
        "HORAE_AHEAD": "9",
        "HORAE_RAFT_LOG_MIB": "2",
        "HORAE_LOG_MIB": "3",
        "HORAE_LOG_STORE": "s3://logs",
        "HORAE_LOG_STORE_ENDPOINT": "https://s3.example",
        "HORAE_KEEP_DAYS": "30",
        "HORAE_ALLOW_LINK_LOCAL": "1",
        "HORAE_ALLOW_COMMANDS": "1",
        "HORAE_DOCKER_SOCKET": "/d.sock",
        "HORAE_ALLOW_HOST_NETWORK": "1",
        "HORAE_ACCESS_LOG": "1",
        "HORAE_LOG_LEVEL": "error",
        "HORAE_LOG_FORMAT": "json",
    }
    assert horae("serve", environment=environment).exit_code == 7
    by_environment = served.pop()
    assert (by_environment.http, by_environment.slots, by_environment.ahead) == ("127.0.0.1:9101", 8, 9)
    assert (by_environment.raft_log_mib, by_environment.log_mib) == (2, 3)
    assert (by_environment.log_store, by_environment.log_store_endpoint) == ("s3://logs", "https://s3.example")
    assert (by_environment.raft_log_mib, by_environment.keep_days) == (2, 30.0)
    assert by_environment.node_config().runs_keep_days == 30.0
    assert by_environment.bootstrap and by_environment.insecure
    assert by_environment.allow_link_local and by_environment.access_log and by_environment.allow_commands
    assert (by_environment.docker_socket, by_environment.allow_host_network) == ("/d.sock", True)
    assert (by_environment.log_level, by_environment.log_format) == ("error", "json")


def test_a_worker_is_none_of_the_peers(served: list[ServeSettings]) -> None:
    usual = ("--data-dir", "/d", "--peers", PEERS, "--cluster-secret-file", "/s")
    assert horae("serve", *usual, "--node-id", "w1", environment={"HORAE_WORKER": "1"}).exit_code == 7
    assert served.pop().worker
    refused = horae("serve", *usual, "--node-id", "n1", "--worker")
    assert (refused.exit_code, "none of them" in refused.output) == (2, True)


def test_the_defaults_are_those_of_the_settings(served: list[ServeSettings]) -> None:
    horae("serve", "--data-dir", "/d", "--node-id", "n1", "--peers", PEERS, "--cluster-secret-file", "/s")
    assert served == [
        ServeSettings(
            data_dir=Path("/d"),
            node_id="n1",
            http="127.0.0.1:8101",
            raft="127.0.0.1:7101",
            peers=served[0].peers,
            cluster_secret_file=Path("/s"),
        )
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--http", "0.0.0.0:8101"), "--insecure"),
        (("--raft", "10.0.0.1:7101"), "--insecure"),
        (("--peers", "n1"), "write NODE=HOST:PORT"),
        (("--peers", ","), "names no node"),
        (("--peers", "n1=a:1,n1=b:2"), "is there twice"),
        (("--peers", "n2=127.0.0.1:7102"), "must name this node"),
        (("--node-id", "N 1"), "node id"),
        (("--http", "127.0.0.1"), "HOST:PORT"),
        (("--slots", "0"), "--slots"),
        (("--raft-log-mib", "0"), "--raft-log-mib"),
        (("--log-level", "loud"), "--log-level"),
        (("--log-mib", "0"), "--log-mib"),
        (("--log-store", "logs"), "must be like s3://bucket"),
        (("--log-store-endpoint", "https://s3.example"), "there is no --log-store"),
    ],
)
def test_settings_that_cannot_work_are_wrong_usage(
    served: list[ServeSettings], more: tuple[str, ...], message: str
) -> None:
    least = ("serve", "--data-dir", "/d", "--node-id", "n1", "--peers", PEERS, "--cluster-secret-file", "/s")
    result = horae(*least, *more)
    assert (result.exit_code, served) == (2, [])
    assert message in result.output


def test_a_secret_that_is_missing_is_wrong_usage(tmp_path: Path) -> None:
    secret = str(tmp_path / "none")
    result = horae(
        *("serve", "--data-dir", str(tmp_path), "--node-id", "n1"),
        *("--peers", "n1=127.0.0.1:7101", "--cluster-secret-file", secret),
    )
    assert result.exit_code == 2
    assert secret in result.output


def test_dev_needs_no_flags(served: list[ServeSettings], tmp_path: Path) -> None:
    result = horae("dev", environment={"XDG_STATE_HOME": str(tmp_path)})
    settings = served[0]
    directory = tmp_path / "horae" / "dev"
    assert settings.data_dir == directory / "n1"
    assert settings.bootstrap
    assert settings.peers == {"n1": settings.raft}
    assert settings.http.startswith("127.0.0.1:")
    assert f"http://{settings.http}" in result.output
    assert str(directory) in result.output


def test_dev_bootstraps_once_and_keeps_its_secret(tmp_path: Path) -> None:
    first = dev_options(tmp_path, None)
    secret = (tmp_path / "secret").read_bytes()
    (tmp_path / "n1").mkdir()
    again = dev_options(tmp_path, "127.0.0.1:9000")
    assert (first["bootstrap"], again["bootstrap"], again["http"]) == (True, False, "127.0.0.1:9000")
    assert (tmp_path / "secret").read_bytes() == secret


def test_the_secret_is_nobody_elses(tmp_path: Path) -> None:
    path = ensure_secret(tmp_path / "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) >= 32
    assert ensure_secret(tmp_path / "other").read_bytes() != path.read_bytes()


def test_a_port_in_use_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) != port
    assert free_port(port) == port


def test_the_state_directory_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_directory() == Path.home() / ".local" / "state" / "horae" / "dev"


def test_every_setting_has_a_flag() -> None:
    assert {parameter.name for parameter in serve.params} == {field.name for field in fields(ServeSettings)}


def test_a_node_to_play_with_runs_what_it_is_told_to(served: list[ServeSettings], tmp_path: Path) -> None:
    assert horae("dev", "--data-dir", str(tmp_path), "--allow-commands", "--docker-socket", "/d.sock").exit_code == 7
    assert (served[0].allow_commands, served[0].docker_socket) == (True, "/d.sock")
    horae("dev", "--data-dir", str(tmp_path))
    assert (served[1].allow_commands, served[1].docker_socket) == (False, None)

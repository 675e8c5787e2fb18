"""What a job's target is refused for when the job is created."""

import math
from typing import Any

import pytest

from executor import check_target
from executor.admission import BODY_BYTES_MAX, HEADERS_MAX, HEARTBEAT_S_MAX, HEARTBEAT_S_MIN, URL_CHARS_MAX
from executor.admission_processes import ARGUMENTS_MAX
from executor.environment import VALUE_CHARS_MAX, VARIABLES_MAX

URL = "https://example.com/hook"


DIGEST = "sha256:" + "0a" * 32


def http(**fields: Any) -> dict[str, Any]:
    return {"type": "http", "url": URL} | fields


def container(image: Any = "registry.example:5000/team/report:1.4", **fields: Any) -> dict[str, Any]:
    return {"type": "container", "image": image} | fields


def command(*argv: str, **fields: Any) -> dict[str, Any]:
    return {"type": "command", "argv": argv} | fields


@pytest.mark.parametrize(
    "target",
    [
        {"type": "noop"},
        http(),
        http(url="http://127.0.0.1:8080/a?b=c"),
        http(url="http://[::1]:8080/"),
        http(url="https://user:secret@example.com/"),
        http(method="get", success_codes="2xx,304", headers={"X-Env": "prod", "Authorization": "Bearer a:b"}),
        http(body="x" * BODY_BYTES_MAX),
        http(headers={}, body=None),
        container(),
        container("busybox"),
        container("library/a_b.c-d__e"),
        container(f"ghcr.io/a/b:v1@{DIGEST}"),
        container(command=["a", ""], env={"A.b-c": ""}, cpu=0.01, memory_mb=6, pull="always", network="my-net_1.x"),
        container(network="host"),
        command("ls"),
        command("/opt/my program", "-a", env={"_A1": "x" * VALUE_CHARS_MAX}, cwd="/srv/a b"),
        command("ls", memory_mb=16, cpu_s=1, open_files=8),
        command("ls", env=None, cwd=None, memory_mb=None),
        command(*["x"] * ARGUMENTS_MAX),
        http(heartbeat_s=HEARTBEAT_S_MIN),
        http(heartbeat_s=None),
    ],
)
def test_a_valid_target_has_no_faults(target: dict[str, Any]) -> None:
    assert check_target(target) == []


@pytest.mark.parametrize(
    ("target", "path", "says"),
    [
        ({}, "target.type", "must be one of http, container, command, noop"),
        ({"type": "ftp"}, "target.type", "must be one of http, container, command, noop"),
        ({"type": "http"}, "target.url", "is missing"),
        (http(url=""), "target.url", "is missing"),
        (http(url="example.com/hook"), "target.url", "must begin with http:// or https://"),
        (http(url="ftp://example.com/"), "target.url", "must begin with http:// or https://"),
        (http(url="http:///path"), "target.url", "host"),
        (http(url="http://example.com:99999/"), "target.url", "not a valid URL"),
        (http(url="http://[::1/"), "target.url", "not a valid URL"),
        (http(url="http://[v1.fe80::a]/"), "target.url", "cannot exist"),
        (http(url="http://.example.com/"), "target.url", "cannot exist"),
        (http(url="http://example..com/"), "target.url", "cannot exist"),
        (http(url=f"http://{'a' * 64}.example.com/"), "target.url", "cannot exist"),
        (http(url=f"http://{'a.' * 130}com/"), "target.url", "cannot exist"),
        (http(url="http://%31%36%39.254.169.254/"), "target.url", "cannot exist"),
        (http(url="http://169.254.169.254./"), "target.url", "link-local"),
        (http(url="http://127.0.0.1./"), "target.url", "write 127.0.0.1"),
        (http(url="http://example.com/a b"), "target.url", "percent-encode"),
        (http(url="http://example.com/\r\nX: y"), "target.url", "percent-encode"),
        (http(url="http://example.com/" + "a" * URL_CHARS_MAX), "target.url", f"longer than {URL_CHARS_MAX}"),
        (http(url="http://u:p@example.com/", headers={"authorization": "x"}), "target.url", "keep one of them"),
        (http(url="http://127.1/"), "target.url", "write 127.0.0.1"),
        (http(url="http://2130706433/"), "target.url", "write 127.0.0.1"),
        (http(heartbeat_s=HEARTBEAT_S_MIN - 0.1), "target.heartbeat_s", "must be from 5 to 86400"),
        (http(heartbeat_s=HEARTBEAT_S_MAX + 1), "target.heartbeat_s", "must be from 5 to 86400"),
        (http(heartbeat_s=math.nan), "target.heartbeat_s", "must be from 5 to 86400"),
        (http(method="CONNECT"), "target.method", "must be one of GET, HEAD"),
        (http(method="BREW"), "target.method", "must be one of GET, HEAD"),
        (http(body="é" * BODY_BYTES_MAX), "target.body", f"longer than {BODY_BYTES_MAX} bytes"),
        (http(success_codes="fine"), "target.success_codes", "not understood"),
        (http(headers={"Horae-Run-Id": "x"}), "target.headers.Horae-Run-Id", "cannot be overridden"),
        (http(headers={"horae-fence-token": "x"}), "target.headers.horae-fence-token", "cannot be overridden"),
        (http(headers={"Horae-Anything": "x"}), "target.headers.Horae-Anything", "cannot be overridden"),
        (http(headers={"IDEMPOTENCY-KEY": "x"}), "target.headers.IDEMPOTENCY-KEY", "cannot be overridden"),
        (http(headers={"Transfer-Encoding": "chunked"}), "target.headers.Transfer-Encoding", "the connection"),
        (http(headers={"Content-Length": "3"}), "target.headers.Content-Length", "the connection"),
        (http(headers={"X Y": "x"}), "target.headers.X Y", "not a valid header name"),
        (http(headers={"": "x"}), "target.headers.", "not a valid header name"),
        (http(headers={"X": "a\r\nEvil: 1"}), "target.headers.X", "line break"),
        (http(headers={"X": "a\nb"}), "target.headers.X", "line break"),
        (http(headers={"X": "a\0b"}), "target.headers.X", "control character"),
        (http(headers={"X": "a" * 5000}), "target.headers.X", "longer than"),
        (http(headers={"X": "1", "x": "2"}), "target.headers.x", "is there twice"),
        ({"type": "container"}, "target.image", "is missing"),
        (container(""), "target.image", "is missing"),
        (container("Report"), "target.image", "in lower case"),
        (container("a b"), "target.image", "docker pull"),
        (container("-rm"), "target.image", "docker pull"),
        (container("../../x"), "target.image", "docker pull"),
        (container("x:"), "target.image", "docker pull"),
        (container("x@sha256:00"), "target.image", "docker pull"),
        (container("a" * 600), "target.image", "docker pull"),
        (container("x?fromSrc=-"), "target.image", "docker pull"),
        (container("x\n"), "target.image", "docker pull"),
        (container(command="ls -l"), "target.command", "a list of words"),
        (container(command=["a"] * (ARGUMENTS_MAX + 1)), "target.command", f"more than {ARGUMENTS_MAX} words"),
        (container(env={"HORAE_RUN_ID": "x"}), "target.env.HORAE_RUN_ID", "Horae's own"),
        (container(env={"A=B": "x"}), "target.env.A=B", "no name of a variable"),
        (container(env={"": "x"}), "target.env.", "no name of a variable"),
        (container(env={"1A": "x"}), "target.env.1A", "no digit first"),
        (container(env={"A": "x\0"}), "target.env.A", "NUL"),
        (container(env={"A": "x" * (VALUE_CHARS_MAX + 1)}), "target.env.A", f"longer than {VALUE_CHARS_MAX}"),
        (container(env={f"A{i}": "" for i in range(VARIABLES_MAX + 1)}), "target.env", f"more than {VARIABLES_MAX}"),
        (container(cpu=0), "target.cpu", "from 0.01 to 1,024 processors"),
        (container(cpu=math.nan), "target.cpu", "from 0.01"),
        (container(memory_mb=5), "target.memory_mb", "from 6 to"),
        (container(pull="sometimes"), "target.pull", "missing, always, never"),
        (container(network="container:db"), "target.network", "none, bridge, host"),
        (container(network=""), "target.network", "none, bridge, host"),
        ({"type": "command"}, "target.argv", "names no program"),
        (command(""), "target.argv", "names no program"),
        (command("ls", "x" * 9000), "target.argv[1]", "longer than"),
        (command("ls", "a\0b"), "target.argv[1]", "NUL"),
        (command("ls", env={"HORAE_MARK": "x"}), "target.env.HORAE_MARK", "Horae's own"),
        (command("ls", cwd="srv"), "target.cwd", "absolute path"),
        (command("ls", cwd="/a\0"), "target.cwd", "absolute path"),
        (command("ls", memory_mb=1), "target.memory_mb", "from 16 to"),
        (command("ls", cpu_s=0), "target.cpu_s", "seconds of processor time"),
        (command("ls", open_files=3), "target.open_files", "from 8 to 1,000,000 files"),
        (http(headers={f"X-{i}": "1" for i in range(HEADERS_MAX + 1)}), "target.headers", f"more than {HEADERS_MAX}"),
    ],
)
def test_a_fault_names_its_field_and_the_remedy(target: dict[str, Any], path: str, says: str) -> None:
    [(found_path, message)] = check_target(target)
    assert found_path == path
    assert says in message


def test_every_fault_is_told_at_once() -> None:
    faults = check_target(http(url="x", method="x", success_codes="x", headers={"Te": "x"}))
    assert [path for path, _ in faults] == ["target.url", "target.method", "target.headers.Te", "target.success_codes"]


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "[::ffff:169.254.169.254]", "[fe80::1]"],
)
def test_a_metadata_address_in_the_url_is_refused_at_once(host: str) -> None:
    [(path, message)] = check_target(http(url=f"http://{host}/latest/meta-data"))
    assert path == "target.url"
    assert "link-local" in message


def test_a_node_may_allow_link_local() -> None:
    assert check_target(http(url="http://169.254.1.1/"), allow_link_local=True) == []


@pytest.mark.parametrize(
    "host", ["example.com.", "a_b.local:8080", "localhost", "1.2.3.4.example", "ü.example", "[::1]:80", "a" * 63 + ".b"]
)
def test_a_host_that_may_exist_is_accepted(host: str) -> None:
    assert check_target(http(url=f"http://{host}/hook")) == []

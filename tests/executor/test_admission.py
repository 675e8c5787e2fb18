"""What a job's target is refused for when the job is created."""

from typing import Any

import pytest

from executor import check_target
from executor.admission import BODY_BYTES_MAX, HEADERS_MAX, URL_CHARS_MAX

URL = "https://example.com/hook"


def http(**fields: Any) -> dict[str, Any]:
    return {"type": "http", "url": URL} | fields


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
    ],
)
def test_a_valid_target_has_no_faults(target: dict[str, Any]) -> None:
    assert check_target(target) == []


@pytest.mark.parametrize(
    ("target", "path", "says"),
    [
        ({}, "target.type", "must be one of http, noop"),
        ({"type": "ftp"}, "target.type", "must be one of http, noop"),
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

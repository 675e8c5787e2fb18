"""Standard Webhooks signatures: the specification's own example, what is sent, and what is refused as a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest

from executor import check_target
from executor.http import HttpExecutor
from executor.http_signature import MASK, signature_headers, signing_key
from executor.interface import OutcomeKind
from tests.executor.servers import STARTED_MS, Recorder, assignment, run, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_published_example_comes_out() -> None:
    """The vector that the reference libraries of the specification test themselves with."""
    headers = signature_headers(
        signing_key(SECRET),
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp_s=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def is_genuine(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As a receiver checks it, written from the specification."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    expected = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_request_is_signed_with_its_body(http: HttpExecutor, method: str) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        await run(http, assignment(url, method=method, args=b'{"a":1}', signing_secret=SECRET))
        await run(http, assignment(url, method=method, signing_secret=SECRET))
    for request, body in recorder.requests:
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert is_genuine(SECRET, headers, body)
        assert not is_genuine(SECRET, headers, body + b" ")
        assert headers["webhook-id"] == headers["idempotency-key"]
        assert 0 <= int(headers["webhook-timestamp"]) - STARTED_MS // 1000 < 60


async def test_the_id_is_the_same_for_every_attempt_so_that_repeats_can_be_dropped(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        first = assignment(url, signing_secret=SECRET)
        await run(http, first)
        await run(http, replace(first, attempt=3, fence_token=9, started_ms=STARTED_MS + 60_000))
    ids, times = zip(
        *((one.headers["webhook-id"], int(one.headers["webhook-timestamp"])) for one, _ in recorder.requests),
        strict=True,
    )
    assert len(set(ids)) == 1
    assert times[1] - times[0] >= 59


async def test_without_a_secret_nothing_is_signed(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        await run(http, assignment(url, headers={"webhook-id": "my own"}))
    [(request, _)] = recorder.requests
    assert [name for name in request.headers if name.lower().startswith("webhook-")] == ["webhook-id"]


def test_a_plain_secret_is_the_key_itself() -> None:
    assert signing_key("correct horse battery") == b"correct horse battery"


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        ("", "must have 16 to 256 characters"),
        ("short", "must have 16 to 256 characters"),
        ("x" * 257, "must have 16 to 256 characters"),
        ("whsec_", "has a key of 0 bytes"),
        ("whsec_" + base64.b64encode(b"x" * 23).decode(), "has a key of 23 bytes"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "has a key of 65 bytes"),
        ("whsec_not base64!", "is not base64"),
        ("whsec_ä", "is not base64"),
        (MASK, "write the secret itself"),
    ],
)
def test_a_secret_that_cannot_be_one_is_refused_without_being_repeated(secret: str, says: str) -> None:
    [(path, message)] = check_target({"type": "http", "url": "https://a.example", "signing_secret": secret})
    assert path == "target.signing_secret"
    assert says in message
    assert not secret.removeprefix("whsec_") or secret.removeprefix("whsec_") not in message


def test_a_job_cannot_sign_by_hand_what_is_signed() -> None:
    headers = {"Webhook-Id": "x", "X-Env": "prod"}
    target = {"type": "http", "url": "https://a.example", "headers": headers}
    assert check_target(target) == []
    [(path, _)] = check_target(target | {"signing_secret": SECRET})
    assert path == "target.headers.Webhook-Id"


async def test_a_wrong_secret_fails_the_attempt_and_is_not_told(http: HttpExecutor) -> None:
    outcome = await run(http, assignment("http://127.0.0.1:9", signing_secret="s3cret"))
    assert outcome.kind == OutcomeKind.FAILED
    assert "s3cret" not in (outcome.detail or "")

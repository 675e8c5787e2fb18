"""Redirects: followed if the job says so, by the rules of browsers, and never with a credential to another host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from executor.http import HttpExecutor
from executor.http_call import HttpCall, build_call
from executor.http_redirect import REDIRECTS_MAX, RedirectRefused, redirected
from executor.interface import Outcome, OutcomeKind
from tests.executor.servers import FakeResolver, Recorder, assignment, run, serving

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRETS = {"Authorization": "Bearer s3cret", "Cookie": "a=s3cret", "X-Api-Key": "s3cret", "User-Agent": "mine"}


class Redirecting(Recorder):
    """/STATUS?to=URL redirects there, everything else is answered 200."""

    async def record(self, request: web.Request) -> web.StreamResponse:
        answer = await super().record(request)
        if "to" not in request.query:
            return answer
        return web.Response(status=int(request.path[1:]), headers={"Location": request.query["to"]}, text="moved")


@pytest.fixture
async def here() -> AsyncIterator[tuple[str, Redirecting]]:
    recorder = Redirecting()
    async with serving(recorder.record) as url:
        yield url, recorder


@pytest.fixture
async def elsewhere() -> AsyncIterator[tuple[str, Redirecting]]:
    recorder = Redirecting()
    async with serving(recorder.record) as url:
        yield url, recorder


Server = tuple[str, Redirecting]


async def follow(http: HttpExecutor, url: str, status: int, to: str, **fields: Any) -> Outcome:
    return await run(http, assignment(f"{url}/{status}?to={to}", **({"follow_redirects": True} | fields)))


async def test_by_default_no_redirect_is_followed(http: HttpExecutor, here: Server) -> None:
    url, recorder = here
    outcome = await follow(http, url, 307, "/new", follow_redirects=False)
    assert (outcome.kind, outcome.status, len(recorder.requests)) == (OutcomeKind.FAILED, 307, 1)


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        *((status, "POST", "GET") for status in (301, 302, 303)),
        *((status, "POST", "POST") for status in (307, 308)),
        *((status, "PUT", "PUT") for status in (301, 302, 307, 308)),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        *((status, "HEAD", "HEAD") for status in (301, 302, 303, 307, 308)),
        *((status, "GET", "GET") for status in (301, 302, 303, 307, 308)),
    ],
)
async def test_the_method_is_that_of_browsers(
    http: HttpExecutor, here: Server, status: int, method: str, then: str
) -> None:
    url, recorder = here
    own = {"Content-Type": "text/x", "Content-Language": "en", "X-Env": "prod"}
    outcome = await follow(http, url, status, "/new", method=method, args=b"[1]", headers=own)
    assert (outcome.kind, outcome.status) == (OutcomeKind.SUCCEEDED, 200)
    (_, sent), (request, body) = recorder.requests
    assert (request.method, request.path, sent) == (then, "/new", b"[1]")
    keeps_body = then == method
    assert body == (b"[1]" if keeps_body else b"")
    assert request.headers.get("Content-Type") == ("text/x" if keeps_body else None)
    assert request.headers.get("Content-Language") == ("en" if keeps_body else None)
    assert request.headers["X-Env"] == "prod"


async def test_what_is_private_stays_with_the_jobs_own_host(
    http: HttpExecutor, here: Server, elsewhere: Server
) -> None:
    (url, _), (other, recorder) = here, elsewhere
    outcome = await follow(http, url, 307, f"{other}/new", headers=SECRETS, signing_secret=SECRET, args=b"[1]")
    assert outcome.kind == OutcomeKind.SUCCEEDED
    [(request, body)] = recorder.requests
    shown = dict(request.headers)
    assert not [value for value in shown.values() if "s3cret" in value]
    assert not [name for name in shown if name.lower().startswith("webhook-")]
    assert (shown["User-Agent"], shown["Accept-Encoding"], body) == ("Horae", "identity", b"[1]")
    assert (shown["Horae-Run-Id"], shown["Idempotency-Key"]) == ("0193f2aa-01JD", "0193f2aa-01JD")


async def test_it_does_not_come_back_with_a_redirect_back(http: HttpExecutor, here: Server, elsewhere: Server) -> None:
    (url, recorder), (other, _) = here, elsewhere
    await follow(http, url, 307, f"{other}/308?to={url}/end", headers=SECRETS, signing_secret=SECRET)
    (first, _), (last, _) = recorder.requests
    assert (first.headers["Authorization"], "webhook-signature" in first.headers) == ("Bearer s3cret", True)
    assert ("Authorization" in last.headers, "webhook-signature" in last.headers) == (False, False)


async def test_on_the_same_host_all_goes_along_and_is_signed_anew(http: HttpExecutor, here: Server) -> None:
    url, recorder = here
    await follow(http, url, 303, "new", headers=SECRETS, signing_secret=SECRET, args=b"[1]")
    (first, _), (last, _) = recorder.requests
    assert last.headers["X-Api-Key"] == "s3cret"
    assert last.headers["webhook-id"] == first.headers["webhook-id"]
    assert last.headers["webhook-signature"] != first.headers["webhook-signature"], "the body has gone"


async def test_a_users_password_stays_with_the_host_that_the_url_names(
    http: HttpExecutor, here: Server, elsewhere: Server
) -> None:
    (url, at_home), (other, abroad) = here, elsewhere
    with_user = url.replace("http://", "http://me:s3cret@")
    await follow(http, with_user, 307, "/same")
    await follow(http, with_user, 307, f"{other}/new")
    assert [request.headers.get("Authorization") for request, _ in at_home.requests] == ["Basic bWU6czNjcmV0"] * 3
    assert [request.headers.get("Authorization") for request, _ in abroad.requests] == [None]


async def test_a_location_cannot_make_this_node_log_in_anywhere(
    http: HttpExecutor, here: Server, elsewhere: Server
) -> None:
    (url, _), (other, recorder) = here, elsewhere
    await follow(http, url, 307, other.replace("http://", "http://them:theirs@") + "/new")
    [(request, _)] = recorder.requests
    assert "Authorization" not in request.headers


async def test_a_loop_ends(http: HttpExecutor, here: Server) -> None:
    url, recorder = here
    outcome = await follow(http, url, 307, f"{url}/307?to=/307?to=/")
    assert outcome.kind == OutcomeKind.SUCCEEDED
    recorder.requests.clear()

    async def again(request: web.Request) -> web.StreamResponse:
        recorder.requests.append((request, b""))
        return web.Response(status=302, headers={"Location": "/again"})

    async with serving(again) as looping:
        outcome = await run(http, assignment(looping, follow_redirects=True))
    assert (outcome.kind, outcome.status) == (OutcomeKind.FAILED, 302)
    assert outcome.detail == f"redirected more than {REDIRECTS_MAX} times"
    assert len(recorder.requests) == 1 + REDIRECTS_MAX


async def test_the_timeout_covers_every_step(http: HttpExecutor, here: Server) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        if request.path == "/":
            return web.Response(status=307, headers={"Location": "/hang"})
        await closed.wait()
        return web.Response()

    closed = asyncio.Event()
    async with serving(hang) as url:
        outcome = await run(http, assignment(url, follow_redirects=True, timeout_s=0.2))
        closed.set()
    assert (outcome.kind, outcome.detail) == (OutcomeKind.TIMED_OUT, "the answer was not complete within 0.2 s")


async def test_a_redirect_that_counts_as_a_success_is_one(http: HttpExecutor, here: Server) -> None:
    url, recorder = here
    outcome = await follow(http, url, 303, "/new", success_codes="2xx,303")
    assert (outcome.kind, outcome.status, len(recorder.requests)) == (OutcomeKind.SUCCEEDED, 303, 1)


async def test_the_last_answer_is_what_counts(http: HttpExecutor, here: Server) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        if request.path == "/":
            return web.Response(status=307, headers={"Location": "/busy", "Retry-After": "99"}, text="moved")
        return web.Response(status=503, headers={"Retry-After": "7"})

    async with serving(busy) as url:
        outcome = await run(http, assignment(url, follow_redirects=True))
    assert (outcome.kind, outcome.status, outcome.retry_after_s) == (OutcomeKind.FAILED, 503, 7.0)


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("http://169.254.169.254/latest", "link-local"),
        ("http://0xa9.0xfe.1/", "link-local"),
        ("http://[::ffff:169.254.1.1]/", "link-local"),
        ("http://100.100.100.200/", "metadata"),
        ("ftp://127.0.0.1/", "must begin with http"),
        ("file:///etc/passwd", "invalid address"),
        ("http://a:99999/", "invalid address"),
    ],
)
async def test_each_step_is_judged_as_the_first(http: HttpExecutor, here: Server, location: str, says: str) -> None:
    outcome = await follow(http, here[0], 307, location)
    assert outcome.kind == OutcomeKind.FAILED
    assert says in (outcome.detail or "")


async def test_a_name_that_leads_to_a_refused_address_is_not_called(here: Server) -> None:
    """The first step goes to an address, the second to a name that stands for the metadata service."""
    http = HttpExecutor(resolver=FakeResolver("169.254.169.254"))
    port = here[0].rpartition(":")[2]
    outcome = await follow(http, f"http://127.0.0.1:{port}", 307, "http://metadata.example/")
    await http.close()
    assert outcome.kind == OutcomeKind.FAILED
    assert "link-local" in (outcome.detail or "")


async def test_a_host_that_cannot_be_reached_is_a_failure_like_any(http: HttpExecutor, here: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    outcome = await follow(http, here[0], 307, address)
    assert outcome.kind == OutcomeKind.FAILED
    assert (outcome.detail or "").startswith("cannot connect")


def call(url: str) -> HttpCall:
    return build_call(assignment(url, follow_redirects=True))


def test_no_step_leads_from_https_to_http() -> None:
    with pytest.raises(RedirectRefused, match="from https to http") as refused:
        redirected(
            call("https://a.example/"), 307, {"Location": "http://a.example/x?token=s3cret"}, allow_link_local=False
        )
    assert "s3cret" not in str(refused.value)
    up = redirected(call("http://a.example/"), 307, {"Location": "https://a.example/x"}, allow_link_local=False)
    assert str(up.url) == "https://a.example/x"


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("x?y=1#z", "http://a.example/p/x?y=1"),
        ("//b.example/x", "http://b.example/x"),
        ("?q", "http://a.example/p/q?q"),
        ("/a%2Fb%20c", "http://a.example/a%2Fb%20c"),
    ],
)
def test_a_location_may_be_relative(location: str, url: str) -> None:
    found = redirected(call("http://a.example/p/q?r#s"), 307, {"Location": location}, allow_link_local=False)
    assert str(found.url) == url

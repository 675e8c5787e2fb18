"""The http target does not connect to link-local and metadata addresses, whatever name or spelling leads there."""

import pytest

from executor.http import HttpExecutor
from executor.interface import OutcomeKind
from tests.executor.servers import FakeResolver, Recorder, assignment, run, serving

# --- addresses that are refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"])
async def test_a_name_that_stands_at_a_refused_address_is_refused_when_connecting(address: str) -> None:
    http = HttpExecutor(resolver=FakeResolver(address))
    outcome = await run(http, assignment("http://innocent.example/"))
    await http.close()
    assert outcome.kind == OutcomeKind.FAILED
    assert f"cannot connect to innocent.example:80: {address} is" in (outcome.detail or "")


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:a9fe:a9fe]", "0xA9FEA9FE", "0xA9.0xFE.0xA9.0xFE"])
async def test_a_refused_address_is_refused_in_every_spelling(http: HttpExecutor, host: str) -> None:
    outcome = await run(http, assignment(f"http://{host}/latest/meta-data"))
    assert outcome.kind == OutcomeKind.FAILED
    assert "is link-local; this node does not call" in (outcome.detail or "")


@pytest.mark.parametrize("host", ["2852039166", "0251.0376.43518"])
async def test_a_spelling_that_the_client_does_not_take_goes_nowhere(http: HttpExecutor, host: str) -> None:
    outcome = await run(http, assignment(f"http://{host}/latest/meta-data"))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.FAILED, "the target's url is not valid")


async def test_a_name_is_judged_by_the_address_it_has_now() -> None:
    resolver = FakeResolver("127.0.0.1")
    recorder = Recorder()
    async with serving(recorder.record) as url:
        port = url.rpartition(":")[2]
        for address, kind in (("127.0.0.1", OutcomeKind.SUCCEEDED), ("169.254.169.254", OutcomeKind.FAILED)):
            resolver.address = address
            http = HttpExecutor(resolver=resolver)
            assert (await run(http, assignment(f"http://rebound.example:{port}/"))).kind == kind
            await http.close()
    assert len(recorder.requests) == 1


async def test_a_node_may_allow_link_local() -> None:
    # Without a zone the kernel refuses this address itself: no packet leaves, and the refusal is not ours.
    http = HttpExecutor(resolver=FakeResolver("fe80::1"), allow_link_local=True)
    outcome = await run(http, assignment("http://neighbour.example/"))
    await http.close()
    assert outcome.kind == OutcomeKind.FAILED
    assert "link-local" not in (outcome.detail or "")

"""LogClient against a log process that does only what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_log_process import INCARNATION, FakeLogProcess
from sample_status import STATUS

from raftlog import local_protocol as local
from raftlog.client import BARRIERS_IN_FLIGHT_MAX, LogClient
from raftlog.config import RaftConfig
from raftlog.errors import CommandTooLarge, DiskFull, LogClosed, LogError, LogOverloaded, NoQuorum, OutcomeUnknown
from raftlog.interface import Lane, LogStatus, Role
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, frame

ONE_AT_A_TIME = RaftConfig(proposals_in_flight_max=1, envelope_commands_max=1)


@pytest.fixture
async def process() -> AsyncIterator[FakeLogProcess]:
    process = FakeLogProcess()
    yield process
    await process.close()


@pytest.fixture
async def client(process: FakeLogProcess, tmp_path: Path) -> AsyncIterator[LogClient]:
    client = await process.client(tmp_path)
    yield client
    await client.close()


def proposals(client: LogClient, *commands: bytes, **options: Any) -> list[asyncio.Task[bytes]]:
    return [asyncio.create_task(client.propose(command, **options)) for command in commands]


async def outcome(task: asyncio.Future[Any]) -> Any:
    """What became of it, errors as their class."""
    try:
        async with asyncio.timeout(5):
            return await task
    except LogError as error:
        return type(error)


async def test_a_new_client_knows_its_incarnation_and_status(client: LogClient) -> None:
    assert client.incarnation == INCARNATION
    assert client.status == STATUS


async def test_for_want_of_room_clients_are_refused_and_nobody_else(client: LogClient, process: FakeLogProcess) -> None:
    told = asyncio.Event()
    client.on_status(lambda status: told.set())
    process.say(local.STATUS, local.packable(replace(STATUS, low_disks=("n1", "n2"), refuses_clients=True)))
    await told.wait()
    with pytest.raises(DiskFull, match="n1, n2 are nearly full"):
        await client.propose(b"a client's")
    work = proposals(client, b"a result", lane=Lane.WORK)
    assert await process.hears() == [local.PROPOSE, 1, 0, [b"a result"]]
    process.say(local.REFUSED, 1, "DiskFull", "the disk of this node is full")
    assert await outcome(work[0]) is DiskFull


async def test_commands_of_one_moment_travel_in_one_proposal(client: LogClient, process: FakeLogProcess) -> None:
    tasks = proposals(client, b"a", b"b", b"c")
    assert await process.hears() == [local.PROPOSE, 1, 0, [b"a", b"b", b"c"]]
    process.say(local.REPLY, 1, [b"A", b"B", b"C"])
    assert [await task for task in tasks] == [b"A", b"B", b"C"]


async def test_what_comes_while_enough_is_under_way_gathers_for_the_next(
    process: FakeLogProcess, tmp_path: Path
) -> None:
    client = await process.client(tmp_path, RaftConfig(proposals_in_flight_max=1))
    first = proposals(client, b"a")
    assert await process.hears() == [local.PROPOSE, 1, 0, [b"a"]]
    rest = proposals(client, b"b", b"c")
    process.say(local.REPLY, 1, [b"A"])
    assert await process.hears() == [local.PROPOSE, 2, 1, [b"b", b"c"]]
    process.say(local.REPLY, 2, [b"B", b"C"])
    assert [await task for task in first + rest] == [b"A", b"B", b"C"]
    await client.close()


async def test_a_reply_out_of_turn_is_nobodys(client: LogClient, process: FakeLogProcess) -> None:
    process.say(local.REPLY, 99, [b"?"])
    (task,) = proposals(client, b"a")
    await process.hears()
    process.say(local.REPLY, 1, [b"A"])
    assert await task == b"A"
    process.say(local.REPLY, 1, [b"again"])
    (task,) = proposals(client, b"b")
    await process.hears()
    process.say(local.REPLY, 2, [b"B"])
    assert await task == b"B"


class TestTime:
    async def test_a_sent_command_without_a_result_is_unknown_and_cancelled(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        (task,) = proposals(client, b"a", timeout_s=0.01)
        assert await outcome(task) is OutcomeUnknown
        assert await process.hears() == [local.PROPOSE, 1, 0, [b"a"]]
        assert await process.hears() == [local.CANCEL, 1]

    async def test_a_command_that_was_never_sent_did_not_happen(self, process: FakeLogProcess, tmp_path: Path) -> None:
        client = await process.client(tmp_path, ONE_AT_A_TIME)
        sent, unsent = proposals(client, b"a") + proposals(client, b"b", timeout_s=0.01)
        assert await outcome(unsent) is LogOverloaded
        assert await process.hears() == [local.PROPOSE, 1, 0, [b"a"]]
        process.say(local.REPLY, 1, [b"A"])
        assert await outcome(sent) == b"A"
        assert process.heard.empty()
        await client.close()

    async def test_a_cancelled_proposal_makes_room(self, process: FakeLogProcess, tmp_path: Path) -> None:
        client = await process.client(tmp_path, ONE_AT_A_TIME)
        lost = proposals(client, b"a", timeout_s=0.01)[0]
        (waiting,) = proposals(client, b"b")
        assert await outcome(lost) is OutcomeUnknown
        assert [await process.hears() for _ in range(3)] == [
            [local.PROPOSE, 1, 0, [b"a"]],
            [local.CANCEL, 1],
            [local.PROPOSE, 2, 1, [b"b"]],
        ]
        process.say(local.REPLY, 1, [b"late"])
        process.say(local.REPLY, 2, [b"B"])
        assert await outcome(waiting) == b"B"
        await client.close()

    async def test_one_impatient_caller_does_not_cancel_for_the_others(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        impatient, patient = proposals(client, b"a", timeout_s=0.01) + proposals(client, b"b")
        assert await outcome(impatient) is OutcomeUnknown
        await process.hears()
        process.say(local.REPLY, 1, [b"A", b"B"])
        assert await outcome(patient) == b"B"
        assert process.heard.empty()

    async def test_a_cancelled_task_gives_its_command_up(self, client: LogClient, process: FakeLogProcess) -> None:
        (task,) = proposals(client, b"a")
        await process.hears()
        task.cancel()
        assert await process.hears() == [local.CANCEL, 1]
        process.say(local.REPLY, 1, [b"late"])
        (task,) = proposals(client, b"b")
        assert await process.hears() == [local.PROPOSE, 2, 1, [b"b"]]


class TestLimits:
    async def test_a_large_command_is_refused_at_once(self, client: LogClient, process: FakeLogProcess) -> None:
        with pytest.raises(CommandTooLarge):
            await client.propose(bytes(RaftConfig().command_bytes_max + 1))
        assert process.heard.empty()

    async def test_too_many_waiting_commands_are_refused_at_once(self, process: FakeLogProcess, tmp_path: Path) -> None:
        client = await process.client(
            tmp_path, RaftConfig(proposals_in_flight_max=1, envelope_commands_max=1, proposals_waiting_max=2)
        )
        taken = proposals(client, b"a")
        await process.hears()
        taken += proposals(client, b"b", b"c", b"d")
        assert await outcome(taken[3]) is LogOverloaded
        for task in taken:
            task.cancel()
        await client.close()

    @pytest.mark.parametrize("name", ["LogOverloaded", "CommandTooLarge", "unheard of"])
    async def test_what_the_log_process_refuses_did_not_happen(
        self, client: LogClient, process: FakeLogProcess, name: str
    ) -> None:
        (task,) = proposals(client, b"a")
        await process.hears()
        process.say(local.REFUSED, 1, name, "the reason")
        with pytest.raises(LogError, match="the reason") as caught:
            await task
        assert caught.value.definite
        proposals(client, b"b")
        assert await process.hears() == [local.PROPOSE, 2, 1, [b"b"]]


class TestBarriers:
    async def test_a_barrier_is_asked_after_the_call_and_gives_the_index(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        reading = asyncio.create_task(client.read_barrier())
        assert await process.hears() == [local.BARRIER, 1]
        process.say(local.BARRIER, 1, 42)
        assert await reading == 42

    async def test_readers_of_one_moment_share_a_barrier_but_later_ones_do_not_join_it(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        first = [asyncio.create_task(client.read_barrier()) for _ in range(3)]
        assert await process.hears() == [local.BARRIER, 1]
        later = asyncio.create_task(client.read_barrier())
        assert await process.hears() == [local.BARRIER, 2]
        process.say(local.BARRIER, 1, 42)
        assert [await task for task in first] == [42, 42, 42]
        assert not later.done()
        process.say(local.BARRIER, 2, 43)
        assert await later == 43

    async def test_so_many_are_under_way_and_the_rest_share_the_next(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        readers = []
        for number in range(1, BARRIERS_IN_FLIGHT_MAX + 1):
            readers.append(asyncio.create_task(client.read_barrier()))
            assert await process.hears() == [local.BARRIER, number]
        crowd = [asyncio.create_task(client.read_barrier()) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert process.heard.empty()
        process.say(local.BARRIER, 1, 42)
        assert await process.hears() == [local.BARRIER, BARRIERS_IN_FLIGHT_MAX + 1]
        process.say(local.BARRIER, BARRIERS_IN_FLIGHT_MAX + 1, 50)
        assert [await reader for reader in crowd] == [50] * 10
        for reader in readers:
            reader.cancel()

    async def test_no_answer_in_time_is_no_quorum_and_later_readers_are_served_again(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        for number in range(1, BARRIERS_IN_FLIGHT_MAX + 1):
            assert await outcome(asyncio.create_task(client.read_barrier(timeout_s=0.01))) is NoQuorum
            assert await process.hears() == [local.BARRIER, number]
        assert await outcome(asyncio.create_task(client.read_barrier(timeout_s=0.01))) is NoQuorum
        reading = asyncio.create_task(client.read_barrier())
        for number in range(1, BARRIERS_IN_FLIGHT_MAX + 1):
            process.say(local.BARRIER, number, 42)
        assert await process.hears() == [local.BARRIER, BARRIERS_IN_FLIGHT_MAX + 1]
        process.say(local.BARRIER, BARRIERS_IN_FLIGHT_MAX + 1, 43)
        assert await outcome(reading) == 43

    async def test_a_refused_barrier_is_no_quorum(self, client: LogClient, process: FakeLogProcess) -> None:
        reading = asyncio.create_task(client.read_barrier())
        await process.hears()
        process.say(local.NO_BARRIER, 1)
        assert await outcome(reading) is NoQuorum


class TestWhatIsTold:
    async def test_events_of_subscribed_topics_are_heard_in_order(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        heard: list[Any] = []
        done = asyncio.Event()
        client.subscribe("n1", lambda index, bodies: heard.append(("first", index, bodies)))
        client.subscribe("n1", lambda index, bodies: heard.append(("second", index, bodies)))
        client.subscribe("*", lambda index, bodies: done.set())
        assert await process.hears() == [local.SUBSCRIBE, "n1"]
        assert await process.hears() == [local.SUBSCRIBE, "*"]
        process.say(local.EVENTS, 8, "n1", [b"x", b"y"])
        process.say(local.EVENTS, 9, "n2", [b"not ours"])
        process.say(local.EVENTS, 9, "*", [b"z"])
        async with asyncio.timeout(5):
            await done.wait()
        assert heard == [("first", 8, [b"x", b"y"]), ("second", 8, [b"x", b"y"])]

    async def test_a_status_is_told_and_kept(self, client: LogClient, process: FakeLogProcess) -> None:
        told: asyncio.Queue[LogStatus] = asyncio.Queue()
        client.on_status(told.put_nowait)
        changed = replace(STATUS, role=Role.FOLLOWER, leader=None)
        process.say(local.STATUS, local.packable(changed))
        async with asyncio.timeout(5):
            assert await told.get() == changed
        assert client.status == changed


class TestTheEnd:
    async def test_when_the_log_process_dies_everybody_is_told_what_may_have_become_of_his_command(
        self, process: FakeLogProcess, tmp_path: Path
    ) -> None:
        client = await process.client(tmp_path, ONE_AT_A_TIME)
        sent, unsent = proposals(client, b"a", b"b")
        reading = asyncio.create_task(client.read_barrier())
        await process.hears()
        await process.hears()
        process.die()
        assert await outcome(sent) is OutcomeUnknown
        assert await outcome(unsent) is LogClosed
        assert await outcome(reading) is LogClosed
        assert "gone" in await client.closed

    async def test_afterwards_everything_is_refused_at_once(self, client: LogClient, process: FakeLogProcess) -> None:
        process.die()
        await client.closed
        with pytest.raises(LogClosed):
            await client.propose(b"a")
        with pytest.raises(LogClosed):
            await client.read_barrier()
        client.subscribe("n1", lambda index, bodies: None)

    async def test_close_ends_the_log_process_and_whoever_waits(
        self, client: LogClient, process: FakeLogProcess
    ) -> None:
        (task,) = proposals(client, b"a")
        await process.hears()
        await client.close()
        assert await outcome(task) is OutcomeUnknown
        assert "this process" in client.closed.result()
        async with asyncio.timeout(5):
            await process.gone.wait()

    @pytest.mark.parametrize(
        "garbage",
        [b"\xff" * 8, frame(b"\xc1", 10), frame(b"\x91\xa5hello", 10), frame(b"\x90", 10), frame(b"\x01", 10)],
    )
    async def test_garbage_from_the_log_process_is_the_end(
        self, client: LogClient, process: FakeLogProcess, garbage: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        process.say_bytes(garbage)
        await client.closed
        assert "says what it should not" in caplog.text

    async def test_a_second_hello_is_the_end(self, client: LogClient, process: FakeLogProcess) -> None:
        process.say(local.HELLO, local.VERSION, 8, local.packable(STATUS))
        await client.closed


class TestConnecting:
    async def test_nobody_there(self, tmp_path: Path) -> None:
        with pytest.raises(LogClosed, match="does not answer"):
            await LogClient.connect(tmp_path, RaftConfig())

    async def test_another_version(self, tmp_path: Path) -> None:
        process = FakeLogProcess(version=local.VERSION + 1)
        with pytest.raises(LogClosed):
            await process.client(tmp_path)
        await process.close()

    async def test_no_answer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftlog.client.HELLO_TIMEOUT_S", 0.01)
        process = FakeLogProcess(answers_hello=False)
        with pytest.raises(LogClosed, match="does not answer"):
            await process.client(tmp_path)
        await process.close()

    async def test_a_data_directory_with_a_long_path(self, process: FakeLogProcess, tmp_path: Path) -> None:
        directory = tmp_path / ("d" * 120)
        directory.mkdir()
        client = await process.client(directory)
        assert client.incarnation == INCARNATION
        await client.close()


def test_a_frame_limit_that_a_full_proposal_fits() -> None:
    assert RaftConfig().envelope_bytes_max * 2 < LOCAL_FRAME_BYTES_MAX

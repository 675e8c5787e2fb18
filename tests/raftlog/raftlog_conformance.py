"""What every `Log` does, whatever is behind it: a class of cases to be subclassed with a `harness` fixture.

The state machine behind the log is a ChainApplier: its reply to a command is the command's number, and a command
`event:<topic>` (nothing behind the colon: EVERY_NODE) gives an event of that topic with the command as its body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import pytest

from raftlog.config import RaftConfig
from raftlog.errors import CommandTooLarge, LogClosed
from raftlog.interface import EVERY_NODE, Lane, Log, LogStatus, Role

HEARD_S = 10.0
"""Longer than any implementation may take to tell something."""


class Harness(Protocol):
    """A running log, and a look at its state by a reader of its own."""

    @property
    def log(self) -> Log: ...

    def applied(self) -> tuple[int, int]:
        """(applied index, commands applied) as a NEW read transaction sees them."""
        ...

    async def restart(self) -> None:
        """Close the log and open it again on the same disk; `log` is the new one."""
        ...


class LogConformance:
    """Subclass as `class Test…(LogConformance)` with an async fixture `harness` that yields a Harness."""

    async def test_a_proposal_returns_the_appliers_reply(self, harness: Harness) -> None:
        first = int(await harness.log.propose(b"one"))
        assert int(await harness.log.propose(b"two")) == first + 1

    async def test_commands_are_applied_in_the_order_of_their_proposal(self, harness: Harness) -> None:
        replies = await asyncio.gather(*(harness.log.propose(b"%d" % number) for number in range(300)))
        first = int(replies[0])
        assert [int(reply) for reply in replies] == list(range(first, first + 300))

    async def test_an_urgent_command_goes_ahead_of_a_crowd_of_clients(self, harness: Harness) -> None:
        crowd = [asyncio.create_task(harness.log.propose(bytes(1024), timeout_s=60)) for _ in range(4_000)]
        await crowd[0]  # the crowd is under way
        urgent = int(await harness.log.propose(b"urgent", lane=Lane.URGENT))
        work = int(await harness.log.propose(b"work", lane=Lane.WORK))
        last = max([int(reply) for reply in await asyncio.gather(*crowd)])
        assert max(urgent, work) < last - 2_000

    async def test_waiting_commands_share_entries(self, harness: Harness) -> None:
        await harness.log.propose(b"before")
        before = (await harness.log.read_barrier(), harness.applied()[1])
        await asyncio.gather(*(harness.log.propose(b"%d" % number) for number in range(500)))
        entries = await harness.log.read_barrier() - before[0]
        assert harness.applied()[1] - before[1] == 500
        assert entries <= 50

    async def test_a_command_too_large_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        limit = RaftConfig().command_bytes_max
        before = int(await harness.log.propose(b"before"))
        with pytest.raises(CommandTooLarge):
            await harness.log.propose(bytes(limit + 1))
        assert int(await harness.log.propose(bytes(limit))) == before + 1

    async def test_many_large_commands_at_once_are_all_applied(self, harness: Harness) -> None:
        limit = RaftConfig().command_bytes_max
        replies = await asyncio.gather(*(harness.log.propose(bytes(limit), timeout_s=30) for _ in range(8)))
        assert len(set(replies)) == 8

    async def test_a_barrier_sees_what_was_acknowledged_before_it(self, harness: Harness) -> None:
        for _ in range(20):
            number = int(await harness.log.propose(b"write"))
            index = await harness.log.read_barrier()
            applied_index, commands = harness.applied()
            assert applied_index >= index
            assert commands >= number

    async def test_barriers_do_not_fall(self, harness: Harness) -> None:
        indices = [await harness.log.read_barrier()]
        for _ in range(10):
            await harness.log.propose(b"write")
            indices += await asyncio.gather(harness.log.read_barrier(), harness.log.read_barrier())
        assert indices == sorted(indices)

    async def test_events_come_by_topic_after_their_commit(self, harness: Harness) -> None:
        heard: dict[str, list[bytes]] = {"here": [], EVERY_NODE: []}
        readable: list[bool] = []
        complete = asyncio.Event()

        def listener(topic: str, index: int, bodies: Sequence[bytes]) -> None:
            heard[topic].extend(bodies)
            readable.append(harness.applied()[0] >= index)
            if sum(map(len, heard.values())) == 3:
                complete.set()

        for topic in heard:
            harness.log.subscribe(topic, lambda index, bodies, topic=topic: listener(topic, index, bodies))
        for command in (b"event:here", b"event:elsewhere", b"event:", b"silent", b"event:here"):
            await harness.log.propose(command)
        async with asyncio.timeout(HEARD_S):
            await complete.wait()
        assert heard == {"here": [b"event:here", b"event:here"], EVERY_NODE: [b"event:"]}
        assert all(readable)

    async def test_status_says_who_leads_and_how_far_the_log_is(self, harness: Harness) -> None:
        heard: list[LogStatus] = []
        told = asyncio.Event()

        def listener(status: LogStatus) -> None:
            heard.append(status)
            if status.applied_index >= index:
                told.set()

        index = 1 << 62
        harness.log.on_status(listener)
        await harness.log.propose(b"write")
        index = await harness.log.read_barrier()
        await harness.log.propose(b"another, in case the first one's status was told already")
        async with asyncio.timeout(HEARD_S):
            await told.wait()
        status = heard[-1]
        assert status.leader in status.members
        assert status.node in status.members
        assert status.quorum
        assert (status.role is Role.LEADER) == (status.leader == status.node)
        assert status.applied_index <= status.commit_index <= status.last_index

    async def test_the_leadership_is_handed_over_if_there_is_anybody(self, harness: Harness) -> None:
        before = harness.log.status
        alone = len(before.members) == 1
        assert await harness.log.transfer_leadership() is not alone
        after = harness.log.status
        assert (after.role is Role.LEADER) == alone
        assert after.leader is not None
        assert (after.term > before.term) == (before.role is Role.LEADER and not alone)
        assert int(await harness.log.propose(b"goes on")) > 0

    async def test_the_leadership_goes_to_no_stranger(self, harness: Harness) -> None:
        for stranger in ("", "stranger", harness.log.status.node):
            with pytest.raises(ValueError, match="is not another member"):
                await harness.log.transfer_leadership(stranger)

    async def test_a_closed_log_refuses(self, harness: Harness) -> None:
        await harness.log.propose(b"before")
        await harness.log.close()
        with pytest.raises(LogClosed):
            await harness.log.propose(b"after")
        with pytest.raises(LogClosed):
            await harness.log.read_barrier()
        with pytest.raises(LogClosed):
            await harness.log.transfer_leadership()
        await harness.log.close()

    async def test_a_restart_keeps_the_state_and_counts_the_incarnation(self, harness: Harness) -> None:
        number, incarnation = int(await harness.log.propose(b"before")), harness.log.incarnation
        await harness.restart()
        assert harness.log.incarnation > incarnation
        assert int(await harness.log.propose(b"after")) == number + 1

"""Trap 11, the decisions: what a node gives up when its disk fills, whom it tells, and when it takes it back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from raftlog_bench import Bench
from sample_status import STATUS

from raftlog import space as space_module
from raftlog.config import MIB
from raftlog.disk import LmdbDisk
from raftlog.errors import DiskFull, MessageRefused
from raftlog.interface import LogStatus, Proposal, Role
from raftlog.outbox import Outgoing
from raftlog.ready import Ready
from raftlog.space import DiskGauge, Level, Room, SpaceLimits, SpaceWatch

LIMITS = SpaceLimits(reserve_bytes=100, stop_bytes=20, share=0.1, recovery=1.25)
LARGE = 10_000
PROPOSAL = Proposal(node="n1", incarnation=1, seq=1, acknowledged=0, commands=[b"x"])


class Node:
    """A Raft node that notes what it is told."""

    incarnation = 1

    def __init__(self) -> None:
        self.status = replace(STATUS, node="n1", members=("n1", "n2", "n3"), role=Role.LEADER, leader="n1")
        self.calls: list[Any] = []
        self.numbers = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *fields, **more: self.calls.append((name, *fields, *more.values()))

    def peer_connected(self, peer: str) -> int:
        self.numbers += 1
        return self.numbers


class Watch:
    """A SpaceWatch with a disk and a clock in the hands of the test."""

    def __init__(self, **standing: Any) -> None:
        self.now_s = 50.0
        self.free_bytes = 1000
        self.node = Node()
        self.node.status = replace(self.node.status, **standing)
        self.watch = SpaceWatch(
            self.node, room=lambda: Room(self.free_bytes, LARGE), clock=lambda: self.now_s, limits=LIMITS
        )

    def turn(self, free_bytes: int | None = None, *, seconds: float = 0.1) -> list[Outgoing]:
        self.now_s += seconds
        self.free_bytes = self.free_bytes if free_bytes is None else free_bytes
        return list(self.watch.turn())

    def hear(self, peer: str, *, low: bool) -> None:
        number = self.watch.peer_connected(peer)
        self.watch.receive(peer, {"type": "disk", "low": low}, connection=number)

    @property
    def status(self) -> LogStatus:
        return self.watch.status

    def transfers(self) -> list[str]:
        return [call[1] for call in self.node.calls if call[0] == "transfer"]


FOLLOWS = {"role": Role.FOLLOWER, "leader": "n2"}


class TestLevels:
    @pytest.mark.parametrize(
        ("free_bytes", "level"),
        [(1000, Level.ENOUGH), (100, Level.ENOUGH), (99, Level.LOW), (20, Level.LOW), (19, Level.OUT), (0, Level.OUT)],
    )
    def test_each_begins_below_its_bytes(self, free_bytes: int, level: Level) -> None:
        assert LIMITS.level(Room(free_bytes, LARGE), Level.ENOUGH) is level

    @pytest.mark.parametrize(
        ("free_bytes", "former", "level"),
        [
            (110, Level.LOW, Level.LOW),
            (125, Level.LOW, Level.ENOUGH),
            (24, Level.OUT, Level.OUT),
            (25, Level.OUT, Level.LOW),
            (124, Level.OUT, Level.LOW),
            (125, Level.OUT, Level.ENOUGH),
        ],
    )
    def test_each_ends_a_bit_above(self, free_bytes: int, former: Level, level: Level) -> None:
        assert LIMITS.level(Room(free_bytes, LARGE), former) is level

    def test_on_a_small_file_system_they_shrink_together(self) -> None:
        assert LIMITS.level(Room(50, 500), Level.ENOUGH) is Level.ENOUGH
        assert LIMITS.level(Room(49, 500), Level.ENOUGH) is Level.LOW
        assert LIMITS.level(Room(9, 500), Level.ENOUGH) is Level.OUT

    @pytest.mark.parametrize(
        "wrong", [{"stop_bytes": 0}, {"stop_bytes": 256 * MIB}, {"share": 0.0}, {"share": 1.0}, {"recovery": 0.9}]
    )
    def test_limits_that_do_not_fit_are_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="do not fit"):
            SpaceLimits(**wrong).validate()


class TestLow:
    def test_its_own_clients_are_refused_and_what_it_has_to_do_itself_goes_on(self) -> None:
        node = Watch(**FOLLOWS)
        node.turn(99)
        assert node.status.refuses_clients
        assert (node.status.low_disks, node.status.disk_free_bytes) == (("n1",), 99)
        node.watch.propose(PROPOSAL)
        assert node.node.calls == [("propose", PROPOSAL)]
        assert not node.watch.stands_aside()

    def test_it_ends_by_itself(self) -> None:
        node = Watch(**FOLLOWS)
        node.turn(99)
        node.turn(130)
        assert (node.status.refuses_clients, node.status.low_disks) == (False, ())

    def test_the_node_process_is_told_at_once(self) -> None:
        node = Watch(**FOLLOWS)
        ready = Ready(
            immediate=[], held=[], results=[], barriers=[], events=[], status=node.node.status, status_changed=False
        )
        assert not node.watch.completed(ready).status_changed
        node.turn(99)
        told = node.watch.completed(ready)
        assert (told.status_changed, told.status.refuses_clients) == (True, True)
        assert not node.watch.completed(ready).status_changed

    def test_a_leader_hands_over_to_a_member_that_has_room(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        node.hear("n3", low=False)
        node.turn(99)
        assert node.transfers() == ["n3"]
        node.turn()
        assert node.transfers() == ["n3"], "an attempt holds clients up: not one in each turn"
        node.turn(seconds=2.0)
        assert node.transfers() == ["n3", "n3"]

    def test_a_leader_stays_when_nobody_has_room_and_hands_over_once_somebody_has(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        node.turn(99)
        assert node.transfers() == []
        node.hear("n2", low=False)
        node.turn()
        assert node.transfers() == ["n2"]

    def test_each_member_gets_its_turn(self) -> None:
        node = Watch()
        node.hear("n2", low=False)
        node.hear("n3", low=False)
        node.turn(99)
        for _ in range(3):
            node.turn(seconds=2.0)
        assert set(node.transfers()) == {"n2", "n3"}

    def test_a_follower_has_nothing_to_hand_over(self) -> None:
        node = Watch(**FOLLOWS)
        node.hear("n2", low=False)
        node.turn(99)
        assert node.transfers() == []


class TestWhatMembersTellEachOther:
    def test_every_connection_and_every_change_once(self) -> None:
        node = Watch(**FOLLOWS)
        node.watch.peer_connected("n2")
        assert node.turn() == [("n2", {"type": "disk", "low": False})]
        assert node.turn() == []
        assert node.turn(99) == [("n2", {"type": "disk", "low": True})]
        node.watch.peer_connected("n2")
        assert node.turn() == [("n2", {"type": "disk", "low": True})]

    def test_one_low_disk_of_three_stops_no_client_of_the_others(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        node.hear("n3", low=False)
        node.turn()
        assert (node.status.refuses_clients, node.status.low_disks) == (False, ("n2",))

    def test_when_no_majority_has_room_clients_are_refused_everywhere(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        node.hear("n3", low=True)
        assert (node.status.refuses_clients, node.status.low_disks) == (True, ("n2", "n3"))

    def test_who_is_not_connected_may_be_out_of_room(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        assert node.status.refuses_clients, "n3 may stand aside: n2 would be next, and then there is no majority"

    def test_silence_alone_refuses_nobody(self) -> None:
        assert not Watch().status.refuses_clients

    def test_a_lost_connection_takes_what_it_said_with_it(self) -> None:
        node = Watch()
        node.hear("n2", low=True)
        node.watch.peer_disconnected("n2", connection=99)
        assert node.status.low_disks == ("n2",), "another connection's end"
        node.watch.peer_disconnected("n2", connection=1)
        assert node.status.low_disks == ()
        assert node.node.calls == [("peer_disconnected", "n2", 99), ("peer_disconnected", "n2", 1)]

    def test_what_a_replaced_connection_still_brings_is_dropped(self) -> None:
        node = Watch()
        old = node.watch.peer_connected("n2")
        node.hear("n2", low=False)
        node.watch.receive("n2", {"type": "disk", "low": True}, connection=old)
        assert node.status.low_disks == ()

    @pytest.mark.parametrize(
        "message", [{"type": "disk"}, {"type": "disk", "low": 1}, {"type": "disk", "low": True, "more": 1}]
    )
    def test_other_shapes_are_refused(self, message: dict[str, Any]) -> None:
        node = Watch()
        number = node.watch.peer_connected("n2")
        with pytest.raises(MessageRefused):
            node.watch.receive("n2", message, connection=number)

    def test_all_other_messages_are_the_nodes(self) -> None:
        node = Watch()
        node.watch.receive("n2", {"type": "barrier", "id": 1}, connection=7)
        assert node.node.calls == [("receive", "n2", {"type": "barrier", "id": 1}, 7)]


class TestOut:
    def test_it_proposes_nothing_and_stands_aside(self) -> None:
        node = Watch(**FOLLOWS)
        node.turn(19)
        with pytest.raises(DiskFull):
            node.watch.propose(PROPOSAL)
        assert node.watch.stands_aside()
        node.turn(30)
        assert not node.watch.stands_aside()
        node.watch.propose(PROPOSAL)

    def test_a_leader_tries_to_hand_over_before(self) -> None:
        node = Watch()
        node.hear("n3", low=False)
        node.turn(19)
        assert node.transfers() == ["n3"]
        assert not node.watch.stands_aside()
        node.turn(seconds=1.0)
        assert node.watch.stands_aside(), "its time is over"

    def test_a_leader_that_nobody_can_relieve_stands_aside_at_once(self) -> None:
        node = Watch()
        node.hear("n3", low=True)
        node.turn(19)
        assert node.watch.stands_aside()


class FillingDisk:
    """Of `bytes` bytes; what is in the log takes room, a commit that finds none fails."""

    def __init__(self, bench: Bench, name: str, size: int) -> None:
        self.bench, self.name, self.size = bench, name, size

    def room(self) -> Room:
        entries = self.bench.nodes[self.name]._journal[0:]
        return Room(self.size - sum(len(command) for command, _, _ in entries), 64 * MIB)


def test_trap_11_nodes_do_not_all_stop_at_the_same_index(bench: Bench, guard: Any) -> None:
    """Clients write without end through all nodes, whose disks are of one size. Without the watermark the log grows
    until a commit fails: on all of them at the same index."""
    guard.remove(SpaceLimits, "level", lambda self, room, former: Level.ENOUGH)
    bench.elect("n1")
    limits = SpaceLimits(reserve_bytes=40_000, stop_bytes=10_000)
    watches = {
        name: SpaceWatch(
            bench.nodes[name], room=FillingDisk(bench, name, size).room, clock=lambda: bench.now, limits=limits
        )
        for name, size in dict.fromkeys(bench.members, 100_000).items()
    }
    for (source, target), number in bench.connections.items():
        watches[target]._connections[source] = number
        watches[target]._low[source] = False
    with guard.verdict():
        for seq in range(1, 200):
            bench.now += 0.1
            for name, watch in watches.items():
                watch.turn()
                if not watch.status.refuses_clients:
                    bench.propose(name, seq, bytes(1000))
            bench.settle()
            assert all(watch._room().free_bytes > limits.stop_bytes for watch in watches.values()), "a commit fails"
        watches["n2"].propose(replace(PROPOSAL, node="n2", seq=1000))
        bench.settle()
        assert bench.results["n2"][-1].seq == 1000, "the node's own work goes on"


class TestGauge:
    def gauge(self, disk: LmdbDisk, reserve_bytes: int = 1 << 40) -> DiskGauge:
        limits = SpaceLimits(reserve_bytes=reserve_bytes, stop_bytes=1)
        return DiskGauge(disk.environment, clock=lambda: 1.0, limits=limits)

    def test_it_is_what_the_map_has_left_or_the_file_system(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = LmdbDisk(tmp_path, map_bytes=8 * MIB, synchronous=False)
        room = self.gauge(disk)()
        assert room.total_bytes == 8 * MIB
        assert 7 * MIB < room.free_bytes < 8 * MIB
        real = os.statvfs(tmp_path)
        fields = list(real)
        fields[4] = MIB // real.f_frsize  # f_bavail
        monkeypatch.setattr(space_module.os, "statvfs", lambda path: os.statvfs_result(fields))
        assert self.gauge(disk)().free_bytes < MIB + 20 * 4096
        disk.close()

    @pytest.mark.parametrize("counted", [True, False], ids=["when it matters", "not while there is enough"])
    def test_what_was_deleted_is_room_though_the_file_does_not_shrink(self, tmp_path: Path, counted: bool) -> None:
        disk = LmdbDisk(tmp_path, map_bytes=8 * MIB, synchronous=False)
        database = disk.database("x")
        gauge = self.gauge(disk, 1 << 40 if counted else 2)
        before = gauge().free_bytes
        for number in range(500):
            disk.transaction.put(b"%d" % number, bytes(4000), db=database)
        disk.commit()
        full = gauge().free_bytes
        assert full < before - 500 * 4096
        for number in range(500):
            disk.transaction.delete(b"%d" % number, db=database)
        disk.commit()
        assert (gauge().free_bytes > full + 450 * 4096) is counted
        disk.close()

    def test_a_reader_that_was_killed_in_a_transaction_pins_nothing_for_long(self, tmp_path: Path) -> None:
        disk = LmdbDisk(tmp_path, map_bytes=8 * MIB)
        program = f"""
import lmdb, time
environment = lmdb.open({str(tmp_path)!r}, readonly=True, map_size=8 << 20, max_readers=512)
transaction = environment.begin()
print("reading", flush=True)
time.sleep(60)
"""
        reader = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert reader.stdout is not None
        assert reader.stdout.readline()
        reader.kill()
        reader.wait()
        reader.stdout.close()
        assert str(reader.pid) in disk.environment.readers()
        now_s = 1.0
        gauge = DiskGauge(disk.environment, clock=lambda: now_s, limits=SpaceLimits())
        gauge()
        assert str(reader.pid) not in disk.environment.readers()
        disk.close()

    def test_a_reader_that_lives_is_left_alone(self, tmp_path: Path) -> None:
        disk = LmdbDisk(tmp_path, map_bytes=8 * MIB)
        with disk.environment.begin():
            self.gauge(disk)()
            assert str(os.getpid()) in disk.environment.readers()
        disk.close()

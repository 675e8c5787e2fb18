"""Real RaftNodes in one process under a virtual clock, a network and disks that fail, all drawn from one seed.

What is judged as it happens: every node applies the same proposal at the same index and stands at the same digest
behind it; a term has one leader; a barrier is not below what was acknowledged before it, and a fresh reader sees it.
At the end, with everything healed: all nodes stand at the same digest, everything acknowledged is in it, once, with
the replies given.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from raftlog_applier import ChainApplier
from raftlog_bench import over_the_wire

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.interface import Proposal, Role
from raftlog.node import Message, RaftNode, Ready
from raftlog.proposals import Name, name_of

MAP_BYTES = 256 * 1024 * 1024
HEAL_S = 25.0
"""Time given to a healed cluster to agree."""

NOW = "now"
BEFORE_COMMIT = "before the commit: what was sent at once has left, nothing is on the disk"
AFTER_COMMIT = "after the commit: it is on the disk, nothing that it allows has left"
DOOMS = (NOW, BEFORE_COMMIT, AFTER_COMMIT)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The circumstances of one run; drawn from the seed so that seeds differ in kind, not only in order."""

    size: int
    duration_s: float
    delay_s: float
    delay_tail_s: float
    commit_s: float
    apply_s: float
    fault_every_s: float
    propose_every_s: float
    barrier_every_s: float
    command_bytes: int
    in_flight_bytes_max: int
    drift: float

    @classmethod
    def draw(cls, seed: int, duration_s: float) -> Plan:
        dice = random.Random(f"plan {seed}")
        return cls(
            size=dice.choice([3, 3, 3, 3, 5, 5, 2, 1]),
            duration_s=duration_s,
            delay_s=dice.choice([0.0002, 0.002, 0.02, 0.12]),
            delay_tail_s=dice.choice([0.0, 0.01, 0.3]),
            commit_s=dice.choice([0.0002, 0.002, 0.02]),
            apply_s=dice.choice([0.0, 0.0, 0.001, 0.01]),
            fault_every_s=dice.choice([0.3, 0.8, 2.0]),
            propose_every_s=dice.choice([0.01, 0.05, 0.2]),
            barrier_every_s=dice.choice([0.05, 0.3]),
            command_bytes=dice.choice([10, 300, 20_000]),
            in_flight_bytes_max=dice.choice([4 * 1024 * 1024, 300 * 1024]),
            drift=dice.choice([0.0, 0.01]),
        )


@dataclass(kw_only=True)
class Connection:
    """A connection of two nodes. Each end knows it by a number of its own; an end that has noticed its loss has
    None."""

    ends: tuple[str, str]
    lives: dict[str, int]
    numbers: dict[str, int | None]
    arrival: dict[str, float] = field(default_factory=dict)
    """When the last message to each end arrives: what is sent later arrives later."""
    stalled: dict[str, list[Message]] = field(default_factory=dict)
    """Messages to each end that a cut holds back: TCP sends them again when it heals."""
    alive: bool = True


class Machine:
    """One node with its disk, its clock and its clients."""

    def __init__(self, name: str, simulator: Simulator, rate: float, offset: float) -> None:
        self.name = name
        self.simulator = simulator
        self.rate = rate
        self.offset = offset
        self.charged_s = 0.0
        self.life = 0
        self.node: RaftNode | None = None
        self.disk: LmdbDisk | None = None
        self.inbox: deque[tuple[str, int, Message]] = deque()
        self.busy_until = 0.0
        self.stepping = False
        self.wake_at = float("inf")
        self.next_seq = 1
        self.doom: str | None = None
        """Where in its next tick the machine crashes."""
        self.outstanding: dict[int, Proposal] = {}
        self.barrier_floors: dict[int, int] = {}
        self.next_barrier = 1

    def clock(self) -> float:
        return self.offset + (self.simulator.now + self.charged_s) * self.rate

    def boot(self, root: Path, config: RaftConfig, members: tuple[str, ...]) -> None:
        self.life += 1
        self.charged_s = 0.0
        self.disk = LmdbDisk(root / self.name, map_bytes=MAP_BYTES, synchronous=False)
        self.node = RaftNode(
            identity=Identity(node=self.name, members=members, cluster_id="simulated", bootstrap=True),
            config=config,
            disk=self.disk,
            applier=ChainApplier(self.disk, self.observe),
            clock=self.clock,
            random=random.Random(f"{self.simulator.seed} {self.name} {self.life}"),
        )

    def observe(self, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        self.charged_s += self.simulator.plan.apply_s
        self.simulator.judge.applied(self.name, index, proposal, digest, repeat)

    def kill(self) -> None:
        assert self.node is not None and self.disk is not None
        self.node.close()
        self.disk.close()
        self.node = self.disk = None
        self.inbox.clear()
        self.outstanding.clear()
        self.barrier_floors.clear()
        self.next_seq = 1
        self.stepping = False
        self.doom = None
        self.wake_at = float("inf")

    def committed_index(self) -> int:
        """What a reader with a new transaction sees."""
        assert self.disk is not None
        with self.disk.environment.begin() as transaction:
            return ChainApplier.applied_index(self.applier_view(), transaction)

    def applier_view(self) -> Any:
        assert self.node is not None
        return self.node._applier


class Judge:
    """The history that all nodes must agree on."""

    def __init__(self) -> None:
        self.history: dict[int, tuple[Name | None, bytes, bool]] = {}
        self.index_of: dict[Name, int] = {}
        self.replies_of: dict[Name, list[bytes]] = {}
        self.leaders: dict[int, str] = {}
        self.acknowledged: set[Name] = set()
        self.acknowledged_index = 0
        self.commands = 0

    def applied(self, node: str, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        fact = (None if proposal is None else name_of(proposal), digest, repeat)
        if index in self.history:
            assert self.history[index] == fact, f"{node} applied {fact} at {index}, another node {self.history[index]}"
            return
        self.history[index] = fact
        if proposal is not None and not repeat:
            self.took_effect(index, proposal)

    def took_effect(self, index: int, proposal: Proposal) -> None:
        name = name_of(proposal)
        assert name not in self.index_of, f"{name} took effect twice, at {self.index_of[name]} and {index}"
        first, self.commands = self.commands + 1, self.commands + len(proposal.commands)
        self.index_of[name] = index
        self.replies_of[name] = [b"%d" % number for number in range(first, self.commands + 1)]

    def led(self, node: str, term: int) -> None:
        assert self.leaders.setdefault(term, node) == node, f"two leaders in term {term}"

    def acknowledge(self, name: Name, replies: list[bytes]) -> None:
        assert name not in self.acknowledged, f"two results for {name}"
        assert self.replies_of.get(name) == replies, f"{name} got {replies}, not {self.replies_of.get(name)}"
        self.acknowledged.add(name)
        self.acknowledged_index = max(self.acknowledged_index, self.index_of[name])


class Simulator:
    def __init__(self, seed: int, root: Path, *, duration_s: float = 12.0, plan: Plan | None = None) -> None:
        self.seed = seed
        self.root = root
        self.plan = plan or Plan.draw(seed, duration_s)
        self.config = RaftConfig(append_batch_bytes=257 * 1024, in_flight_bytes_max=self.plan.in_flight_bytes_max)
        self.now = 0.0
        self.judge = Judge()
        self.trace = blake2b(digest_size=16)
        self.traced = 0
        self.healing = False
        self._order = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._network = random.Random(f"network {seed}")
        self._faults = random.Random(f"faults {seed}")
        self._workload = random.Random(f"workload {seed}")
        self._disks = random.Random(f"disks {seed}")
        names = tuple(f"n{number}" for number in range(1, self.plan.size + 1))
        self.members = names
        self.machines = {name: self._machine(name) for name in names}
        self.connections: dict[tuple[str, str], Connection] = {}
        self.cut: set[tuple[str, str]] = set()

    def _machine(self, name: str) -> Machine:
        rate = 1.0 + self._disks.uniform(-self.plan.drift, self.plan.drift)
        return Machine(name, self, rate, self._disks.uniform(0.0, 1e6))

    # The event loop.

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time, self._order, action, arguments))

    def after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay, action, *arguments)

    def run_until(self, end: float) -> None:
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action, arguments = heapq.heappop(self._heap)
            action(*arguments)
        self.now = end

    def note(self, *facts: object) -> None:
        self.traced += 1
        self.trace.update(repr((round(self.now, 9), facts)).encode())

    def run(self) -> None:
        """The whole run: faults and load, then healing, then the verdict. Raises AssertionError for what must not
        be."""
        for name in self.members:
            self.boot(name)
        self.after(self._workload.expovariate(1 / self.plan.propose_every_s), self.propose)
        self.after(self._workload.expovariate(1 / self.plan.barrier_every_s), self.ask_barrier)
        self.after(self._faults.expovariate(1 / self.plan.fault_every_s), self.inject)
        self.run_until(self.plan.duration_s)
        self.heal_all()
        self.run_until(self.now + HEAL_S)
        self.verdict()

    # Machines.

    def boot(self, name: str) -> None:
        machine = self.machines[name]
        if machine.node is not None:
            return
        machine.boot(self.root, self.config, self.members)
        self.note("boot", name, machine.life)
        for other in self.members:
            if other != name:
                self.after(self._network.uniform(0.0, 0.2), self.dial, name, other)
        self.wake(machine)

    def wake(self, machine: Machine) -> None:
        """See that the machine steps now, or as soon as it is free."""
        self.schedule(machine, max(self.now, machine.busy_until))

    def schedule(self, machine: Machine, time: float) -> None:
        if time < machine.wake_at:
            machine.wake_at = time
            self.at(time, self.step, machine, machine.life)

    def step(self, machine: Machine, life: int) -> None:
        if machine.node is None or machine.life != life or self.now < machine.wake_at:
            return
        machine.wake_at = float("inf")
        if machine.stepping:
            return  # its commit will see to the next step
        if self.now < machine.busy_until:
            self.schedule(machine, machine.busy_until)
            return
        for source, number, message in self.take_inbox(machine):
            machine.node.receive(source, message, connection=number)
        ready = machine.node.step()
        machine.stepping = True
        status = ready.status
        self.note("step", machine.name, status.role, status.term, status.commit_index, status.last_index)
        if status.role is Role.LEADER:
            self.judge.led(machine.name, status.term)
        self.send(machine, ready.immediate)
        took = machine.charged_s + self._disks.expovariate(1 / self.plan.commit_s)
        machine.charged_s = 0.0
        self.after(took, self.commit, machine, life, ready)

    def take_inbox(self, machine: Machine) -> list[tuple[str, int, Message]]:
        taken = list(machine.inbox)
        machine.inbox.clear()
        return taken

    def commit(self, machine: Machine, life: int, ready: Ready) -> None:
        if machine.node is None or machine.life != life:
            return
        if machine.doom == BEFORE_COMMIT:
            self.crash(machine.name)
            return
        machine.node.commit()
        machine.stepping = False
        if machine.doom == AFTER_COMMIT:
            self.crash(machine.name)
            return
        self.send(machine, ready.held)
        self.hand_out(machine, ready)
        if machine.inbox:
            self.wake(machine)
        self.schedule(machine, self.node_time(machine, machine.node.next_deadline()))

    def node_time(self, machine: Machine, node_time: float) -> float:
        """A time on the machine's clock as virtual time, never before now."""
        return max(self.now, machine.busy_until, (node_time - machine.offset) / machine.rate)

    def hand_out(self, machine: Machine, ready: Ready) -> None:
        assert machine.node is not None
        for result in ready.results:
            name = (machine.name, result.incarnation, result.seq)
            machine.outstanding.pop(result.seq)
            self.note("result", *name, *result.replies)
            self.judge.acknowledge(name, list(result.replies))
        for barrier in ready.barriers:
            floor = machine.barrier_floors.pop(barrier.barrier_id)
            self.note("barrier", machine.name, barrier.barrier_id, barrier.read_index)
            assert barrier.read_index >= floor, f"{machine.name} passed a barrier at {barrier} below {floor}"
            assert machine.committed_index() >= barrier.read_index, "a barrier was passed before its state was readable"

    # Network.

    def dial(self, one: str, other: str) -> None:
        """Make a connection between two running nodes that can reach each other, in place of any former one."""
        pair = (min(one, other), max(one, other))
        former = self.connections.get(pair)
        if former is not None and former.numbers[one] is not None:
            return
        ends = [self.machines[name] for name in pair]
        if any(end.node is None for end in ends) or pair in self.cut or pair[::-1] in self.cut:
            if self.machines[one].node is not None:
                self.after(self._network.uniform(0.1, 0.5), self.dial, one, other)
            return
        numbers: dict[str, int | None] = {}
        for end, peer in ((ends[0], pair[1]), (ends[1], pair[0])):
            assert end.node is not None
            numbers[end.name] = end.node.peer_connected(peer)
            self.wake(end)
        lives = {end.name: end.life for end in ends}
        stalled: dict[str, list[Message]] = {pair[0]: [], pair[1]: []}
        self.connections[pair] = Connection(ends=pair, lives=lives, numbers=numbers, stalled=stalled)
        self.note("connected", *pair)

    def send(self, machine: Machine, messages: Any) -> None:
        for peer, message in messages:
            connection = self.connections.get((min(machine.name, peer), max(machine.name, peer)))
            if connection is None or connection.numbers[machine.name] is None:
                continue
            packed = over_the_wire(message)
            if (machine.name, peer) in self.cut:
                connection.stalled[peer].append(packed)
            elif connection.alive:
                self.transmit(connection, peer, packed)

    def transmit(self, connection: Connection, target: str, message: Message) -> None:
        delay = self._network.expovariate(1 / self.plan.delay_s)
        if self._network.random() < 0.02:
            delay += self._network.uniform(0.0, self.plan.delay_tail_s)
        arrival = max(self.now + delay, connection.arrival.get(target, 0.0))
        connection.arrival[target] = arrival
        self.at(arrival, self.arrive, connection, target, message)

    def arrive(self, connection: Connection, target: str, message: Message) -> None:
        machine = self.machines[target]
        number = connection.numbers[target]
        source = connection.ends[0] if connection.ends[1] == target else connection.ends[1]
        if machine.node is None or machine.life != connection.lives[target] or number is None:
            return
        if (source, target) in self.cut:
            connection.stalled[target].append(message)
            return
        machine.inbox.append((source, number, message))
        self.wake(machine)

    def lose(self, connection: Connection) -> None:
        """Break a connection: what is under way may still arrive; each end notices in its own time, then dials."""
        if connection.alive:
            connection.alive = False
            self.note("lost", *connection.ends)
            for end in connection.ends:
                notice = self._faults.choice([0.0, 0.01, 0.3, 2.0])
                self.after(notice, self.notice_loss, connection, end)

    def notice_loss(self, connection: Connection, end: str) -> None:
        number, connection.numbers[end] = connection.numbers[end], None
        machine = self.machines[end]
        if machine.node is not None and machine.life == connection.lives[end] and number is not None:
            # A newer connection may have replaced this one already: then the node takes no notice.
            machine.node.peer_disconnected(self.other_end(connection, end), connection=number)
            self.wake(machine)
            self.after(self._network.uniform(0.05, 0.5), self.dial, end, self.other_end(connection, end))

    @staticmethod
    def other_end(connection: Connection, end: str) -> str:
        return connection.ends[0] if connection.ends[1] == end else connection.ends[1]

    # Faults.

    def inject(self) -> None:
        if self.healing:
            return
        fault = self._faults.choice(
            [
                self.fault_crash,
                self.fault_crash_leader,
                self.fault_crash_all,
                self.fault_kill_witnesses,
                self.fault_partition,
                self.fault_cut,
                self.fault_deafen_leader,
                self.fault_lose,
                self.fault_pause,
            ]
        )
        fault()
        self.after(self._faults.expovariate(1 / self.plan.fault_every_s), self.inject)

    def fault_crash(self) -> None:
        self.doom(self._faults.choice(self.members), self._faults.choice(DOOMS))

    def fault_crash_leader(self) -> None:
        self.doom(self._leader(), self._faults.choice(DOOMS))

    def fault_crash_all(self) -> None:
        doom = self._faults.choice(DOOMS)
        for name in self.members:
            self.doom(name, doom)

    def fault_kill_witnesses(self) -> None:
        """One node is out of reach while the leader and its other followers go down one after the other, in the middle
        of a tick; the leader stays away. What it acknowledged must be on the disks of those that come back."""
        leader = self._leader()
        bystander = self._faults.choice([name for name in self.members if name != leader] or [leader])
        links = {(bystander, name) for name in self.members} | {(name, bystander) for name in self.members}
        self.cut_for(links, self._faults.choice([0.5, 1.5]))
        moment = self._faults.uniform(0.0, 0.5)
        for name in self.members:
            if name not in (leader, bystander):
                self.after(moment, self.doom, name, BEFORE_COMMIT)
        self.after(moment + self._faults.uniform(0.0, 0.2), self.crash, leader, 4.0)

    def doom(self, name: str, doom: str) -> None:
        machine = self.machines[name]
        if machine.node is None:
            return
        if doom == NOW:
            self.crash(name)
        else:
            machine.doom = doom

    def _leader(self) -> str:
        """The leader of the highest term, as far as anybody knows; any node if nobody knows one."""
        nodes = [machine.node for machine in self.machines.values() if machine.node is not None]
        leaders = [(node.status.term, node.status.leader) for node in nodes if node.status.leader is not None]
        return max(leaders)[1] if leaders else self.members[0]

    def crash(self, name: str, away_s: float | None = None) -> None:
        machine = self.machines[name]
        if machine.node is None:
            return
        self.note("crash", name, machine.stepping)
        machine.kill()
        for connection in list(self.connections.values()):
            if name in connection.ends:
                connection.numbers[name] = None
                self.lose(connection)
        self.after(self._faults.choice([0.05, 0.5, 3.0]) if away_s is None else away_s, self.boot, name)

    def fault_partition(self) -> None:
        side = {name for name in self.members if self._faults.random() < 0.5}
        links = {(a, b) for a in self.members for b in self.members if (a in side) != (b in side)}
        self.cut_for(links, self._faults.choice([0.3, 2.0, 6.0]))

    def fault_cut(self) -> None:
        one, other = self._faults.choice(self.members), self._faults.choice(self.members)
        if one != other:
            self.cut_for({(one, other)}, self._faults.choice([0.3, 2.0, 6.0]))

    def fault_deafen_leader(self) -> None:
        """Its heartbeats arrive, the answers do not: they come late, to whatever it is then."""
        leader = self._leader()
        deaf_to = [name for name in self.members if name != leader and self._faults.random() < 0.8]
        self.cut_for({(name, leader) for name in deaf_to}, self._faults.choice([0.3, 2.0, 3.5]))

    def cut_for(self, links: set[tuple[str, str]], seconds: float) -> None:
        self.note("cut", *sorted(links))
        self.cut |= links
        self.after(seconds, self.mend, links)
        self.after(self.config.connection_timeout_s, self.time_out, links)

    def mend(self, links: set[tuple[str, str]]) -> None:
        self.cut -= links
        for connection in list(self.connections.values()):
            for end in connection.ends:
                held, connection.stalled[end] = connection.stalled[end], []
                if (self.other_end(connection, end), end) in self.cut:
                    connection.stalled[end] = held
                elif connection.alive:
                    for message in held:
                        self.transmit(connection, end, message)

    def time_out(self, links: set[tuple[str, str]]) -> None:
        """Nothing was heard on these links for the connection's timeout."""
        for connection in list(self.connections.values()):
            if connection.ends in self.cut or connection.ends[::-1] in self.cut:
                self.lose(connection)

    def fault_lose(self) -> None:
        if self.connections:
            self.lose(self.connections[self._faults.choice(sorted(self.connections))])

    def fault_pause(self) -> None:
        machine = self.machines[self._faults.choice(self.members)]
        machine.busy_until = self.now + self._faults.choice([0.2, 1.0, 4.0])
        self.note("pause", machine.name)

    def heal_all(self) -> None:
        self.healing = True
        self.mend(set(self.cut))
        for name in self.members:
            self.machines[name].busy_until = min(self.machines[name].busy_until, self.now)
            self.machines[name].doom = None
            self.boot(name)

    # Workload.

    def propose(self) -> None:
        if not self.healing:
            self.after(self._workload.expovariate(1 / self.plan.propose_every_s), self.propose)
        elif self.now > self.plan.duration_s + HEAL_S / 2:
            return
        else:
            self.after(0.5, self.propose)
        machine = self.machines[self._workload.choice(self.members)]
        if machine.node is None or len(machine.outstanding) >= self.config.proposals_in_flight_max:
            return
        seq, machine.next_seq = machine.next_seq, machine.next_seq + 1
        size = self._workload.randrange(1, 2 * self.plan.command_bytes)
        commands = [self._workload.randbytes(size) for _ in range(self._workload.choice([1, 1, 3]))]
        proposal = Proposal(
            node=machine.name,
            incarnation=machine.node.incarnation,
            seq=seq,
            acknowledged=min(machine.outstanding, default=seq),
            commands=commands,
        )
        machine.outstanding[seq] = proposal
        machine.node.propose(proposal)
        self.wake(machine)

    def ask_barrier(self) -> None:
        if self.healing:
            return
        self.after(self._workload.expovariate(1 / self.plan.barrier_every_s), self.ask_barrier)
        machine = self.machines[self._workload.choice(self.members)]
        if machine.node is not None and len(machine.barrier_floors) < 100:
            number, machine.next_barrier = machine.next_barrier, machine.next_barrier + 1
            machine.barrier_floors[number] = self.judge.acknowledged_index
            machine.node.barrier(number)
            self.wake(machine)

    # The end.

    def verdict(self) -> None:
        """A late election may have left an empty entry that one node does not have yet; the state must be the same."""
        digests = {}
        for machine in self.machines.values():
            assert machine.node is not None and machine.disk is not None
            assert not machine.outstanding, f"{machine.name} still waits for {sorted(machine.outstanding)}"
            assert not machine.barrier_floors, f"{machine.name} still waits for barriers"
            digests[machine.name] = machine.applier_view().digest(machine.disk.transaction)
        assert len(set(digests.values())) == 1, f"replicas differ: {digests}"

    def close(self) -> None:
        for machine in self.machines.values():
            if machine.node is not None:
                machine.kill()

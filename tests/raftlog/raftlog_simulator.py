"""Real RaftNodes in one process under a virtual clock, a network and disks that fail, all drawn from one seed.

What is judged as it happens: every node applies the same proposal at the same index and stands at the same digest
behind it; a term has one leader; a barrier is not below what was acknowledged before it, and a fresh reader sees it.
At the end, with everything healed: nobody is deposed any more, however slow the network; all nodes stand at the same
digest, everything acknowledged is in it, once, with the replies given.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from raftlog_faults import Faults
from raftlog_judge import Judge
from raftlog_machine import AFTER_COMMIT, BEFORE_COMMIT, Machine, Plan
from raftlog_network import Network

from raftlog.config import RaftConfig
from raftlog.interface import Proposal, Role
from raftlog.node import Message, Ready

HEAL_S = 25.0
"""Time given to a healed cluster to agree."""


class Simulator:
    def __init__(self, seed: int, root: Path, *, duration_s: float = 12.0, plan: Plan | None = None) -> None:
        self.seed = seed
        self.root = root
        self.plan = plan or Plan.draw(seed, duration_s)
        self.config = RaftConfig(
            append_batch_bytes=257 * 1024,
            in_flight_bytes_max=self.plan.in_flight_bytes_max,
            log_keep_entries=self.plan.keep_entries,
            snapshot_chunk_bytes=self.plan.chunk_bytes,
        )
        self.now = 0.0
        self.judge = Judge()
        self.trace = blake2b(digest_size=16)
        self.traced = 0
        self.healing = False
        self._order = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.fault_dice = random.Random(f"faults {seed}")
        self._workload = random.Random(f"workload {seed}")
        self._disks = random.Random(f"disks {seed}")
        names = tuple(f"n{number}" for number in range(1, self.plan.size + 1))
        self.members = names
        self.machines = {name: self._machine(name) for name in names}
        self.network = Network(self)
        self.faults = Faults(self)

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
        self.faults.start()
        self.run_until(self.plan.duration_s)
        self.heal_all()
        self.run_until(self.now + HEAL_S / 2)
        leaders = len(self.judge.leaders)
        self.run_until(self.now + HEAL_S / 2)
        assert len(self.judge.leaders) == leaders, "a leader was deposed though nothing fails any more"
        self.verdict()

    # Machines.

    def boot(self, name: str) -> None:
        machine = self.machines[name]
        if machine.node is not None:
            return
        machine.boot(self.root, self.config, self.members)
        self.note("boot", name, machine.life)
        self.network.boot(name)
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
        self.network.send(machine, ready.immediate)
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
        self.network.send(machine, ready.held)
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

    def crash(self, name: str, away_s: float | None = None) -> None:
        machine = self.machines[name]
        if machine.node is None:
            return
        self.note("crash", name, machine.stepping)
        machine.kill()
        self.network.crash(name)
        self.after(self.fault_dice.choice([0.05, 0.5, 3.0]) if away_s is None else away_s, self.boot, name)

    def heal_all(self) -> None:
        self.healing = True
        self.network.mend(set(self.network.cut))
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

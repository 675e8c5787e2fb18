"""What goes wrong in a simulated run, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog_machine import BEFORE_COMMIT, DOOMS, NOW

if TYPE_CHECKING:
    from raftlog_simulator import Simulator


class Faults:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._dice = simulator.fault_dice

    def start(self) -> None:
        self._simulator.after(self._dice.expovariate(1 / self._simulator.plan.fault_every_s), self.inject)

    def inject(self) -> None:
        if self._simulator.healing:
            return
        fault = self._dice.choice(
            [
                self.crash,
                self.crash_leader,
                self.crash_all,
                self.kill_witnesses,
                self.partition,
                self.cut,
                self.deafen_leader,
                self.deafen,
                self.mute_leader,
                self.lose_connection,
                self.pause,
                self.hand_over,
            ]
        )
        fault()
        self._simulator.after(self._dice.expovariate(1 / self._simulator.plan.fault_every_s), self.inject)

    def crash(self) -> None:
        self.doom(self._dice.choice(self._simulator.members), self._dice.choice(DOOMS))

    def crash_leader(self) -> None:
        self.doom(self._leader(), self._dice.choice(DOOMS))

    def crash_all(self) -> None:
        doom = self._dice.choice(DOOMS)
        for name in self._simulator.members:
            self.doom(name, doom)

    def kill_witnesses(self) -> None:
        """One node is out of reach while the leader and its other followers go down one after the other, in the middle
        of a tick; the leader stays away. What it acknowledged must be on the disks of those that come back."""
        leader = self._leader()
        bystander = self._dice.choice([name for name in self._simulator.members if name != leader] or [leader])
        links = {(bystander, name) for name in self._simulator.members} | {
            (name, bystander) for name in self._simulator.members
        }
        self._simulator.network.cut_for(links, self._dice.choice([0.5, 1.5]))
        moment = self._dice.uniform(0.0, 0.5)
        for name in self._simulator.members:
            if name not in (leader, bystander):
                self._simulator.after(moment, self.doom, name, BEFORE_COMMIT)
        self._simulator.after(moment + self._dice.uniform(0.0, 0.2), self._simulator.crash, leader, 4.0)

    def doom(self, name: str, doom: str) -> None:
        machine = self._simulator.machines[name]
        if machine.node is None:
            return
        if doom == NOW:
            self._simulator.crash(name)
        else:
            machine.doom = doom

    def _leader(self) -> str:
        """The leader of the highest term, as far as anybody knows; any node if nobody knows one."""
        nodes = [machine.node for machine in self._simulator.machines.values() if machine.node is not None]
        leaders = [(node.status.term, node.status.leader) for node in nodes if node.status.leader is not None]
        return max(leaders)[1] if leaders else self._simulator.members[0]

    def partition(self) -> None:
        side = {name for name in self._simulator.members if self._dice.random() < 0.5}
        links = {(a, b) for a in self._simulator.members for b in self._simulator.members if (a in side) != (b in side)}
        self._simulator.network.cut_for(links, self._dice.choice([0.3, 2.0, 6.0]))

    def cut(self) -> None:
        one, other = self._dice.choice(self._simulator.members), self._dice.choice(self._simulator.members)
        if one != other:
            self._simulator.network.cut_for({(one, other)}, self._dice.choice([0.3, 2.0, 6.0]))

    def deafen_leader(self) -> None:
        """Its heartbeats arrive, the answers do not: they come late, to whatever it is then."""
        leader = self._leader()
        deaf_to = [name for name in self._simulator.members if name != leader and self._dice.random() < 0.8]
        self._simulator.network.cut_for({(name, leader) for name in deaf_to}, self._dice.choice([0.3, 2.0, 3.5]))

    def deafen(self) -> None:
        """Any node: it speaks, and hears nobody, or not the leader."""
        deaf = self._dice.choice(self._simulator.members)
        unheard = self._dice.choice([set(self._simulator.members), {self._leader()}]) - {deaf}
        self._simulator.network.cut_for({(name, deaf) for name in unheard}, self._dice.choice([1.0, 3.5, 8.0]))

    def mute_leader(self) -> None:
        """It hears everybody, and only some hear it."""
        leader = self._leader()
        deaf = [name for name in self._simulator.members if name != leader and self._dice.random() < 0.7]
        self._simulator.network.cut_for({(leader, name) for name in deaf}, self._dice.choice([0.3, 2.0, 6.0]))

    def lose_connection(self) -> None:
        if self._simulator.network.connections:
            self._simulator.network.lose(
                self._simulator.network.connections[self._dice.choice(sorted(self._simulator.network.connections))]
            )

    def pause(self) -> None:
        machine = self._simulator.machines[self._dice.choice(self._simulator.members)]
        machine.busy_until = self._simulator.now + self._dice.choice([0.2, 1.0, 4.0])
        self._simulator.note("pause", machine.name)

    def hand_over(self) -> None:
        """The leader is asked to hand over, to anybody or to one that may be out of reach."""
        machine = self._simulator.machines[self._leader()]
        if machine.node is not None and not machine.stepping:
            machine.node.transfer(self._dice.choice([None, *self._simulator.members]))
            self._simulator.note("hand over", machine.name)
            self._simulator.wake(machine)

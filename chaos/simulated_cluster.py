"""A whole cluster in one process on virtual time: first everything fails, then everything is healed and must agree.

The same seed gives the same trace, byte for byte.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from chaos.check_lateness import RECOVERED_S
from chaos.history import History, LeaderSeen
from chaos.replica_state import final_state, unfinished
from chaos.simulated_absences import Absences
from chaos.simulated_executor import Witness
from chaos.simulated_faults import Faults
from chaos.simulated_network import WORLD, Network
from chaos.simulated_node import SimulatedNode
from chaos.simulated_plan import HEAL_S, Plan
from chaos.simulated_truth import TruthLog
from chaos.virtual_loop import Process, VirtualLoop
from chaos.workload import Call, Client
from raftlog.interface import LogStatus
from statemachine.snapshot import Snapshot

CLIENTS = 2
READERS = 1
READ_EVERY_S = 0.3
FAULTS_S_MAX = 600.0
LEADER_POLL_S = 0.05
SETTLED_POLL_S = 0.1
SPINNING = 20_000
"""Callbacks within LEADER_POLL_S: some loop never sleeps (the usual is a hundred)."""


class Spinning(Exception):
    """A process is busy with nothing; simulating on would take for ever."""


class SimulatedCluster:
    """`run` returns the history; `close` must be called afterwards. The nodes keep their data under `root`."""

    def __init__(self, seed: int, plan: Plan, root: Path) -> None:
        self.seed = seed
        self.plan = plan
        self.loop = VirtualLoop()  # type: ignore[abstract]  # no sockets, signals or child processes
        self.loop.on_unhandled = self._on_unhandled
        self.members = tuple(f"n{number}" for number in range(1, plan.nodes + 1))
        self.network = Network(self.loop, plan, seed, self.note)
        self.truth = TruthLog(self.loop.time, lambda fact: self.note("applied", fact))
        self.witness = Witness(self.loop.time, self.note)
        self.nodes = {name: SimulatedNode(name, self, root) for name in self.members}
        self.network.stations.update(self.nodes)
        self.clients = [self._client(number) for number in range(CLIENTS + READERS)]
        self.faults = Faults(self)
        self.happened: Counter[str] = Counter()
        """How often each kind of thing did."""
        self._trace = blake2b(digest_size=16)
        self._user = Process("clients")
        self._broken: list[str] = []
        self._leaders: dict[int, str] = {}
        self._leaders_seen: list[LeaderSeen] = []
        self._absences = Absences()
        self._callbacks = 0
        self._healed_s: float | None = None
        self._leader_again_s: float | None = None
        self._known_at_healing = 0
        self._caught_up_s: float | None = None

    @property
    def trace(self) -> str:
        """Fingerprint of everything that was noted."""
        return self._trace.hexdigest()

    @property
    def healing(self) -> bool:
        """Nothing more goes wrong."""
        return self._healed_s is not None

    def note(self, *facts: object) -> None:
        """What happened: its kind first."""
        self.happened[str(facts[0])] += 1
        self._absences.heard(self.loop.time(), *facts)
        self._trace.update(repr((round(self.loop.time(), 9), facts)).encode())

    def run(self) -> History:
        for node in self.nodes.values():
            node.boot()
        self._watch()
        jobs = self.plan.jobs // CLIENTS + 1
        works = [client.work(self.plan.call_every_s, jobs) for client in self.clients[:CLIENTS]]
        looks = [client.look(READ_EVERY_S) for client in self.clients[CLIENTS:]]
        for work in (*works, *looks):
            self.loop.call_soon(self.loop.create_task, work, context=self._user.context)
        self.loop.call_later(3.0, self.faults.start, self._heal, context=WORLD)
        try:
            self._run_both_phases()
        except Exception as error:
            # Nothing can be simulated on from here; what there is is judged all the same.
            self._broken.append(f"the run ended early: {type(error).__name__}: {error}")
        return self._history(self._healed_s or self.loop.time())

    def _run_both_phases(self) -> None:
        while self._healed_s is None and self.loop.time() < FAULTS_S_MAX:
            self.loop.run_until(self.loop.time() + 1.0)
        if self._healed_s is None:
            self._heal()
        assert self._healed_s is not None
        self.loop.run_until(self._healed_s + self.plan.calm_s)
        while self.loop.time() < self._healed_s + HEAL_S and not self._is_settled():
            self.loop.run_until(self.loop.time() + SETTLED_POLL_S)

    def _is_settled(self) -> bool:
        """Nothing is left to wait for: every request has ended, all replicas stand at the same index, and no run rests
        that was to start while everything failed, or while that was worked off. What never gets there is the
        checkers' business."""
        if self._leader_again_s is None or any(node.node is None for node in self.nodes.values()):
            return False
        if any(operation.ended_s == float("inf") for client in self.clients for operation in client.operations):
            return False
        states = [node.look(Snapshot.applied_index) for node in self.nodes.values()]
        before_ms = self.plan.epoch_ms + round(1000 * (self._healed_s or 0.0) + 1000 * RECOVERED_S)
        job_ids, one = self._job_ids(), next(iter(self.nodes.values()))
        return len(set(states)) == 1 and not one.look(lambda snapshot: unfinished(snapshot, job_ids, before_ms))

    def close(self) -> None:
        self._user.alive = False
        for node in self.nodes.values():
            node.crash("the end", away_s=1e9)
            for process in node.dead:
                process.bury()
        self._user.bury()

    def _client(self, number: int) -> Client:
        async def reach(node: str, call: Call) -> Any:
            return await self.nodes[node].call(call)

        dice = random.Random(f"client {self.seed} {number}")
        return Client(f"c{number}", self.members, reach, self.loop.time, dice, self.plan.epoch_ms)

    def _heal(self) -> None:
        """Everything works again, clients go home, and nothing more goes wrong."""
        self.note("heal")
        self._healed_s = self.loop.time()
        known = [node.status.applied_index for node in self.nodes.values() if node.status is not None]
        self._known_at_healing = max(known, default=0)
        for client in self.clients:
            client.go_home()
        self.network.mend()
        for node in self.nodes.values():
            node.repair()

    def _watch(self) -> None:
        """Looks at the cluster from above, a few times a second."""
        if self.loop.callbacks - self._callbacks > SPINNING:
            raise Spinning(f"{self.loop.busiest()} spins at {self.loop.time():.3f}")
        self._callbacks = self.loop.callbacks
        statuses = [node.status for node in self.nodes.values() if node.status is not None]
        for status in statuses:
            if status.leader == status.node and self._leaders.setdefault(status.term, status.node) != status.node:
                self._broken.append(f"two leaders in term {status.term}")
        self._see_leader(statuses)
        self._see_recovery(statuses)
        self.loop.call_later(LEADER_POLL_S, self._watch, context=WORLD)

    def _see_leader(self, statuses: Sequence[LogStatus]) -> None:
        known = Counter((status.term, status.leader) for status in statuses if status.leader is not None)
        (term, leader), votes = known.most_common(1)[0] if known else ((0, None), 0)
        if votes <= len(self.members) // 2:
            leader = None
        last = self._leaders_seen[-1] if self._leaders_seen else None
        if last is None or (last.node, last.term) != (leader, term):
            self._leaders_seen.append(LeaderSeen(at_s=self.loop.time(), node=leader, term=term))

    def _see_recovery(self, statuses: Sequence[LogStatus]) -> None:
        if self._healed_s is None or len(statuses) < len(self.nodes):
            return
        leaders = {status.leader for status in statuses}
        if self._leader_again_s is None and len(leaders) == 1 and None not in leaders:
            self._leader_again_s = self.loop.time()
        if self._caught_up_s is None and min(one.applied_index for one in statuses) >= self._known_at_healing:
            self._caught_up_s = self.loop.time()

    def _on_unhandled(self, process: Process, error: BaseException) -> None:
        """The node ends then, as node/serve.py and raftlog/process.py have it; and it is what was looked for."""
        self._broken.append(f"{process.name}: {type(error).__name__}: {error}")
        self.note("broken", process.name, type(error).__name__)
        for node in self.nodes.values():
            if node.consists_of(process):
                self.loop.call_soon(node.crash, "broke", context=WORLD)

    def _job_ids(self) -> set[str]:
        """Of the jobs that a client was told of, deleted ones too."""
        operations = (operation for client in self.clients for operation in client.operations)
        return {operation.subject for operation in operations if operation.kind == "create" and operation.subject}

    def _history(self, healed_s: float) -> History:
        job_ids = self._job_ids()
        return History(
            operations=[operation for client in self.clients for operation in client.operations],
            truth=self.truth.truth,
            effects=list(self.witness.effects),
            effect_ends=list(self.witness.ends),  # more come when the processes are buried
            faults=self.faults.injected,
            states=[
                node.look(partial(final_state, node.name, job_ids=job_ids))
                for node in self.nodes.values()
                if node.log is not None
            ],
            healed_s=healed_s,
            leader_again_s=self._leader_again_s,
            end_s=self.loop.time(),
            epoch_ms=self.plan.epoch_ms,
            broken=[*self._broken, *self.truth.parted],
            absences=self._absences.all(),
            leaders=self._leaders_seen,
            caught_up_s=self._caught_up_s,
        )

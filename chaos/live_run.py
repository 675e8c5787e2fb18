"""A live run from its seed to its verdict: everything fails, then everything is healed and must come together again;
what was recorded is judged by the checkers that judge simulated runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.local_cluster import ENTRY
from chaos import live_sink
from chaos.history import About, Absence, Claimed, Effect, EffectEnd, FinalState, History, Truth, Violation
from chaos.history_file import write_history
from chaos.live_client import HttpScheduler, LiveClient, open_session
from chaos.live_cluster import LiveCluster
from chaos.live_faults import KINDS, draw_schedule
from chaos.live_nemeses import READY_S, Nemeses
from chaos.replica_replay import Replayed, replay
from chaos.replica_state import final_state, unfinished
from chaos.verdict import violations_of
from chaos.workload import Call

CLIENTS = 3
JOBS_A_CLIENT = 4
CALL_EVERY_S = (0.2, 0.5, 1.5)
SETTLES_S_MIN = 25.0
"""From the healing until the run may end: what is late after the recovery must have time to show."""
SETTLES_S_MAX = 60.0
DRAINED_S = 45.0
"""From the healing until every run that was due by then is final: attempts, back-offs, a session's end, an election."""
CAUGHT_UP_S = 30.0
CLIENT_HOME_S = 40.0
"""A client's last request: all its retries."""
POLL_EVERY_S = 0.2
HISTORY_NAME = "history.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class LivePlan:
    seed: int
    nodes: int
    duration_s: float
    """Of the faults; settling and judging come on top."""
    nemeses: tuple[str, ...] = KINDS
    isolated: bool = True
    """Namespaces; without them there are only kills and pauses."""
    entry: str = ENTRY
    commit: str = ""

    @property
    def command(self) -> str:
        chosen = "" if self.nemeses == KINDS else f" --nemesis {','.join(self.nemeses)}"
        return f"horae chaos live --seed {self.seed} --nodes {self.nodes} --duration {self.duration_s:g}s{chosen}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveVerdict:
    history: History
    violations: list[Violation]
    entries: int
    faults: Counter[str]


class LiveRun:
    """`root` is a directory that exists; data, logs and history stay in it. `wall_ms` and `monotonic` are clocks of
    this machine; `say` is told in lines what goes on."""

    def __init__(
        self,
        plan: LivePlan,
        root: Path,
        *,
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._root = root
        self._monotonic = monotonic
        self._began_ms = wall_ms()
        self._cluster = LiveCluster(
            root,
            plan.nodes,
            seed=plan.seed,
            isolated=plan.isolated,
            small_disks="disk-full" in plan.nemeses,
            own_clocks="clock" in plan.nemeses,
            monotonic=monotonic,
            say=say,
            entry=plan.entry,
        )
        self._epoch_ms = wall_ms() - round(self._cluster.now() * 1000)
        self._say = say
        self._clients: list[LiveClient] = []
        self._drained_s: float | None = None
        self._caught_up_s: float | None = None
        self._leader_again_s: float | None = None
        self._healed_s = 0.0
        self._end_s = 0.0

    async def run(self) -> LiveVerdict:
        """Raises NetworkFailed, OSError or TimeoutError when the cluster could not even be started."""
        schedule = draw_schedule(self._plan.seed, duration_s=self._plan.duration_s, kinds=self._plan.nemeses)
        async with self._cluster as cluster, open_session() as session:
            nemeses = Nemeses(cluster, schedule, self._plan.seed)
            if not await cluster.wait_ready(READY_S):
                raise TimeoutError(f"the nodes were not ready {READY_S:g} s after their start")
            work = self._begin_work(session)
            await nemeses.run(cluster.now() + self._plan.duration_s)
            if cluster.handovers:
                self._say(
                    f"{cluster.now():7.1f} s  on request the leadership was handed over {cluster.handovers} times"
                )
            await self._heal(work)
            await self._settle()
            states = await self._stop()
        self._say("replaying and judging")
        history = self._history(nemeses, states)
        write_history(self._root / HISTORY_NAME, history)
        return LiveVerdict(
            history=history,
            violations=violations_of(history),
            entries=len(cluster.shared.entries),
            faults=Counter(fault.kind for fault in history.faults),
        )

    def _begin_work(self, session: aiohttp.ClientSession) -> list[asyncio.Task[None]]:
        """Clients that ask any node."""
        cluster = self._cluster
        schedulers = {name: HttpScheduler(session, node.place.url) for name, node in cluster.nodes.items()}

        async def reach(node: str, call: Call) -> Any:
            return await call(schedulers[node])  # type: ignore[arg-type]  # the methods that a client calls

        dice = random.Random(f"work {self._plan.seed}")
        every_s = dice.choice(CALL_EVERY_S)
        names = tuple(cluster.nodes)
        self._clients = [
            LiveClient(f"c{number}", names, reach, cluster.now, random.Random(dice.random()), self._epoch_ms)
            for number in range(CLIENTS)
        ]
        for client in self._clients:
            client.sink_url = cluster.sink_url
        return [asyncio.create_task(client.work(every_s, JOBS_A_CLIENT)) for client in self._clients]

    async def _heal(self, work: Sequence[asyncio.Task[None]]) -> None:
        """The nemeses have healed their faults; once every process is up again, nothing more goes wrong: how long this
        machine takes to start Python is no promise of the product's. Clients go home."""
        cluster = self._cluster
        for node in cluster.nodes.values():
            node.resume()
            node.up()
        if not await cluster.wait_answering(READY_S):
            cluster.broken.append(f"not all nodes answered {READY_S:g} s after everything was healed")
        self._healed_s = cluster.now()
        self._say(f"{self._healed_s:7.1f} s  healed")
        self._target = cluster.applied_max()
        for client in self._clients:
            client.go_home()
        self._work = work

    async def _settle(self) -> None:
        """Until what was due is done, and at least for a while."""
        cluster = self._cluster
        while True:
            since_s = cluster.now() - self._healed_s
            self._look_at_recovery()
            done = None not in (self._drained_s, self._caught_up_s, self._leader_again_s)
            if since_s > SETTLES_S_MAX or (done and since_s > SETTLES_S_MIN):
                break
            await asyncio.sleep(POLL_EVERY_S)
        pending = [task for task in self._work if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=CLIENT_HOME_S)
        for task in self._work:
            if not task.done() or task.exception() is not None:
                cluster.failed(task.exception() if task.done() else TimeoutError("a client did not go home"))
                task.cancel()
        self._end_s = cluster.now()

    def _look_at_recovery(self) -> None:
        cluster = self._cluster
        now_s = cluster.now()
        if self._leader_again_s is None and cluster.agreed:
            self._leader_again_s = now_s
        if self._caught_up_s is None and all(cluster.applied(name) >= self._target for name in cluster.nodes):
            self._caught_up_s = now_s
        if self._drained_s is None and self._caught_up_s is not None and self._is_drained():
            self._drained_s = now_s

    def _is_drained(self) -> bool:
        before_ms = self._epoch_ms + round(self._healed_s * 1000)
        reader = self._cluster.replica(next(iter(self._cluster.nodes))).state()
        if reader is None:
            return False
        with reader.snapshot() as snapshot:
            return unfinished(snapshot, self._job_ids(), before_ms) == 0

    def _job_ids(self) -> set[str]:
        operations = [operation for client in self._clients for operation in client.operations]
        return {one.subject for one in operations if one.kind == "create" and one.subject}

    async def _stop(self) -> list[FinalState]:
        """All nodes leave, and what is on their disks is read."""
        cluster = self._cluster
        cluster.judge_ends()
        self._say(f"{cluster.now():7.1f} s  stopping")
        left = await asyncio.gather(*(node.stop() for node in cluster.nodes.values()))
        for name, in_time in zip(cluster.nodes, left, strict=True):
            if not in_time:
                cluster.broken.append(f"{name} did not leave in time at the end")
        cluster.look()
        job_ids = self._job_ids()
        states = []
        for name in cluster.nodes:
            reader = cluster.replica(name).state()
            if reader is None:
                cluster.broken.append(f"{name} has no state at the end")
                continue
            with reader.snapshot() as snapshot:
                states.append(final_state(name, snapshot, job_ids))
        return states

    def _history(self, nemeses: Nemeses, states: list[FinalState]) -> History:
        cluster = self._cluster
        replayed = replay(cluster.shared, self._root / "replay", {state.applied_index for state in states})
        effects, ends = self._witnessed(replayed.truth)
        return History(
            operations=[operation for client in self._clients for operation in client.operations],
            truth=replayed.truth,
            effects=effects,
            effect_ends=ends,
            faults=sorted(nemeses.injected, key=lambda fault: fault.at_s),
            states=states,
            healed_s=self._healed_s,
            leader_again_s=self._leader_again_s,
            end_s=self._end_s,
            epoch_ms=self._epoch_ms,
            broken=[*cluster.broken, *cluster.shared.parted, *self._unlike(replayed, states), *self._not_recovered()],
            absences=sorted(self._absences(), key=lambda absence: absence.from_s),
            leaders=cluster.leaders,
            samples=cluster.samples,
            caught_up_s=self._caught_up_s,
            witnessed=("http",),
            pauses_tear=True,
            about=About(
                harness="live",
                seed=self._plan.seed,
                nodes=self._plan.nodes,
                commit=self._plan.commit,
                command=self._plan.command,
                began_ms=self._began_ms,
                real_s=cluster.now(),
            ),
        )

    def _absences(self) -> list[Absence]:
        return [absence for node in self._cluster.nodes.values() for absence in node.absences]

    def _unlike(self, replayed: Replayed, states: list[FinalState]) -> list[str]:
        """I6 at the end: each node's state is what the log says, whatever index it stands at."""
        found = []
        holes = self._cluster.shared.holes()
        if holes:
            found.append(f"the truth has holes: {len(holes)} entries from {holes[0]} on were never seen")
        for state in states:
            digest = replayed.digests.get(state.applied_index)
            if digest is None:
                found.append(f"{state.node} stands at {state.applied_index}; the log is known to {replayed.last_index}")
            elif digest != state.digest:
                found.append(f"the state of {state.node} at {state.applied_index} is not what the log comes to")
        return found

    def _not_recovered(self) -> list[str]:
        found = []
        for what, bound_s, at_s in (
            ("the nodes had caught up", CAUGHT_UP_S, self._caught_up_s),
            ("the backlog was drained", DRAINED_S, self._drained_s),
        ):
            if at_s is None or at_s - self._healed_s > bound_s:
                took = "never" if at_s is None else f"{at_s - self._healed_s:.1f} s after the healing"
                found.append(f"{what} {took}, not within {bound_s:g} s")
        return found

    def _witnessed(self, truth: Sequence[Truth]) -> tuple[list[Effect], list[EffectEnd]]:
        """Who called is told by the address; on loopback, where all have one, by the claim."""
        cluster = self._cluster
        holders = {(one.run_id, one.token): one.node for one in truth if isinstance(one, Claimed)}
        effects, ends = list[Effect](), list[EffectEnd]()
        for line in live_sink.read_record(cluster.sink_file):
            node = cluster.node_of_peer.get(line.peer) or holders.get((line.run, line.token), "?")
            at_s = line.at - cluster.origin_s
            if isinstance(line, live_sink.Call):
                call = Effect(
                    at_s=at_s, node=node, run_id=line.run, job_id=line.job, attempt=line.attempt, token=line.token
                )
                effects.append(call)
            else:
                ends.append(EffectEnd(at_s=at_s, node=node, run_id=line.run, token=line.token, how=line.how))
        return effects, ends

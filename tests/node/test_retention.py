"""Retention beside the leader: job after job, a part at a time, by the job's word, its team's, the cluster's (M11)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from node import sweep
from node.interface import NoopTarget
from node.retention_loop import RetentionLoop
from node.state_view import ReaderSource
from node.sweep import Sweep
from raftlog.errors import NoQuorum
from raftlog.interface import Role
from statemachine.codec import encode_command
from statemachine.commands import DeleteJob, PruneItem, RenewSession
from statemachine.records import Job, Team
from statemachine.retention import Forgettable, Keep
from tests.node.conftest import CONFIG, LiveNode
from tests.node.test_delivery import die

DAY_MS = 24 * 3_600_000
NOW_MS = 1000 * DAY_MS


def job(job_id: str, **fields: object) -> Job:
    usual = {"name": job_id, "team": "t", "target": NoopTarget(), "created_ms": 0, "updated_ms": 0}
    return Job(job_id=job_id, **(usual | fields))  # type: ignore[arg-type]


@dataclass
class Listed:
    """A state with these jobs, each with so many runs that may go; what was asked is kept."""

    live: list[Job]
    deleted: list[Job] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)
    asked: list[tuple[str, Keep]] = field(default_factory=list)
    now_ms: int | None = NOW_MS

    def clock_ms(self) -> int | None:
        return self.now_ms

    def team(self, team: str) -> Team | None:
        return self.teams.get(team)

    def live_jobs(self, after_id: str, limit: int) -> list[Job]:
        return [job for job in self.live if job.job_id > after_id][:limit]

    def deleted_jobs(self, after_id: str, limit: int) -> list[Job]:
        return [job for job in self.deleted if job.job_id > after_id][:limit]

    def forgettable(self, job: Job, keep: Keep, now_ms: int, runs_max: int) -> Forgettable:
        self.asked.append((job.job_id, keep))
        count = min(self.runs.get(job.job_id, 0), runs_max)
        if not count:
            return Forgettable(None, 0)
        self.runs[job.job_id] -= count
        return Forgettable(PruneItem(job_id=job.job_id, version=1, run_ids=("r",) * count), count)


def steps_of(sweep: Sweep, view: Listed) -> list[dict[str, int]]:
    """How many runs of which jobs each step asks for."""
    steps = []
    while not sweep.is_over:
        steps.append({item.job_id: len(item.run_ids) for item in sweep.step(view)})
    return steps


def test_every_job_is_come_by_once_deleted_ones_too() -> None:
    view = Listed([job(f"J{number:03d}") for number in range(130)], deleted=[job("D1"), job("D2")])
    steps_of(Sweep(keep_days=90), view)
    assert [job_id for job_id, _ in view.asked] == [*(f"J{number:03d}" for number in range(130)), "D1", "D2"]


def test_a_long_history_takes_several_commands_and_the_next_job_waits_for_its_turn() -> None:
    view = Listed([job("A"), job("B")], runs={"A": 1200, "B": 5})
    steps = steps_of(Sweep(keep_days=90), view)
    assert [step for step in steps if step] == [{"A": 512}, {"A": 512}, {"A": 176, "B": 5}]


def test_a_step_is_bounded_however_little_it_finds() -> None:
    view = Listed([job(f"J{number:03d}") for number in range(130)])
    Sweep(keep_days=90).step(view)
    assert len(view.asked) == sweep.STEP_COST_MAX // sweep.JOB_COST


def test_the_jobs_own_word_counts_else_its_teams_else_the_clusters() -> None:
    jobs = [job("A"), job("B", team="u"), job("C", team="u", keep_days=2.5, keep_runs=7), job("D", keep_runs=9)]
    view = Listed(jobs, teams={"u": Team(team="u", keep_days=30, keep_runs=100), "t": Team(team="t")})
    steps_of(Sweep(keep_days=90), view)
    assert [keep for _, keep in view.asked] == [
        Keep(after_ms=NOW_MS - 90 * DAY_MS, runs=None),
        Keep(after_ms=NOW_MS - 30 * DAY_MS, runs=100),
        Keep(after_ms=NOW_MS - 5 * DAY_MS // 2, runs=7),
        Keep(after_ms=NOW_MS - 90 * DAY_MS, runs=9),
    ]


def test_while_nobody_knows_the_time_nothing_is_asked_for() -> None:
    view = Listed([job("A")], runs={"A": 1}, now_ms=None)
    assert Sweep(keep_days=90).step(view) == []
    assert view.asked == []


def loop_of(idle: LiveNode) -> RetentionLoop:
    config = replace(CONFIG, runs_keep_days=0.0001)
    return RetentionLoop(config=config, log=idle.log, source=ReaderSource(idle.reader), clock=idle.clock)


async def sweep_all(loop: RetentionLoop) -> None:
    while await loop.step():
        pass


def delete_and_wait(idle: LiveNode, job_id: str) -> None:
    """And let two minutes go by, by the cluster's clock."""
    idle.log.apply([encode_command(DeleteJob(now_ms=idle.clock.wall_ms(), job_id=job_id))])
    idle.clock.ahead_s += 120.0
    for renewal in (8, 9):
        renew = RenewSession(now_ms=idle.clock.wall_ms(), node="n1", incarnation=1, renewal=renewal)
        idle.log.apply([encode_command(renew)])


async def test_a_deleted_jobs_history_goes_and_then_its_last_definition(idle: LiveNode) -> None:
    """dkron#1566: history does not bloat the state."""
    loop = loop_of(idle)
    die(idle, "A")
    delete_and_wait(idle, "A")
    await sweep_all(loop)
    with idle.snapshot() as snapshot:
        assert snapshot.runs_of_job("A").items == []
        assert snapshot.job("A") is not None
    await sweep_all(loop)
    with idle.snapshot() as snapshot:
        assert snapshot.job("A") is None
        assert snapshot.counters().runs_pruned == 1


async def test_only_beside_the_leader_is_anything_asked_for(idle: LiveNode) -> None:
    loop = loop_of(idle)
    die(idle, "A")
    delete_and_wait(idle, "A")
    idle.log.role = Role.FOLLOWER
    assert await loop.step() is False
    with idle.snapshot() as snapshot:
        assert len(snapshot.runs_of_job("A").items) == 1


async def test_what_could_not_be_asked_for_is_asked_for_the_next_time(idle: LiveNode) -> None:
    loop = loop_of(idle)
    die(idle, "A")
    delete_and_wait(idle, "A")
    idle.log.cut = NoQuorum()
    await sweep_all(loop)
    idle.log.cut = None
    await sweep_all(loop)
    with idle.snapshot() as snapshot:
        assert snapshot.runs_of_job("A").items == []

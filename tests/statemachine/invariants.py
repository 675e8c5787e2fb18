"""What must hold of the tables after every apply, read from the tables alone."""

from __future__ import annotations

from collections import Counter

from statemachine.codec import (
    decode_backfill,
    decode_ending,
    decode_job,
    decode_run,
    decode_session,
    decode_slow_held,
    decode_stats,
    decode_timer,
)
from statemachine.history_records import JobStats
from statemachine.keys import (
    LANE_AGED,
    LANE_SLOW,
    U64,
    bucket_of,
    dead_key,
    kind_of_lane,
    parked_key,
    parse_run_id,
    row_key,
    split_due_key,
    split_session_key,
    split_waiting_key,
    waiting_key,
)
from statemachine.records import FINAL_STATES, Run, RunState
from statemachine.stats import with_ending
from statemachine.tables import SLOW_HELD_KEY
from tests.statemachine.driver import Driver


def is_held(run: Run) -> bool:
    """Whether a session holds it: it was handed out, is not over, and no target has taken the attempt over."""
    assert run.lease is None or (run.state is RunState.RUNNING and run.session is None)
    return run.state in (RunState.CLAIMED, RunState.RUNNING) and run.lease is None


def check(driver: Driver) -> None:
    runs = {key.decode(): decode_run(value) for key, value in driver.table("runs").items()}
    each_run_stands_in_its_one_place(driver, runs)
    counts_equal_what_they_count(driver, runs)
    each_job_stands_at_one_tick(driver)
    lists_are_complete(driver, runs)
    histories_add_up(driver, runs)


def each_run_stands_in_its_one_place(driver: Driver, runs: dict[str, Run]) -> None:
    """I4: every run that is not final stands in exactly one place, where its next mover looks; final ones in none."""
    waiting = {split_waiting_key(key)[3] for key in driver.table("waiting")}
    timers = {split_due_key(key)[2]: value for key, value in driver.table("timers").items()}
    claims = {key.split(b"\0", 1)[1][8:].decode(): value for key, value in driver.table("claims").items()}
    assert len(timers) == len(driver.table("timers")) and len(claims) == len(driver.table("claims"))
    queued = {run_id for run_id, run in runs.items() if run.state is RunState.QUEUED}
    parked = {run_id for run_id in queued if runs[run_id].parked}
    assert waiting == queued - parked
    assert set(driver.table("parked")) == {
        parked_key(runs[run_id].job_id, runs[run_id].release_ms, run_id) for run_id in parked
    }
    assert set(claims) == {run_id for run_id, run in runs.items() if is_held(run)}
    timed = {RunState.SCHEDULED: "release", RunState.RETRYING: "retry", RunState.RUNNING: "lease"}
    assert set(timers) == {run_id for run_id, run in runs.items() if run.state in timed and not is_held(run)}
    for run_id, value in claims.items():
        assert U64.unpack(value)[0] == runs[run_id].token
    stopping = {run_id for run_id, run in runs.items() if run.stop is not None}
    assert stopping <= set(claims), "I8: what is to be stopped is held, or has ended"
    stops = {key for key in driver.table("claims") if key.split(b"\0", 1)[1][8:].decode() in stopping}
    assert driver.table("stops") == {key: driver.table("claims")[key] for key in stops}
    for key, value in driver.table("timers").items():
        at_ms, bucket, run_id = split_due_key(key)
        run, entry = runs[run_id], decode_timer(value)
        assert (entry.token, entry.kind) == (run.token, timed[run.state])
        lease_ms = None if run.lease is None else run.lease.until_ms
        assert at_ms == {"release": run.release_ms, "retry": run.retry_at_ms, "lease": lease_ms}[entry.kind]
        assert bucket == bucket_of(run.job_id)
    for key in driver.table("waiting"):
        run = runs[split_waiting_key(key)[3]]
        assert key == waiting_key(run.lane, run.team, run.release_ms, run.run_id)
        assert run.lane[0] == 9 - run.priority - bool(run.lane[1] & LANE_AGED)
    jobs = {job.job_id: job for job in map(decode_job, driver.table("jobs").values())}
    for key in driver.table("waiting"):
        run = runs[split_waiting_key(key)[3]]
        job = jobs.get(run.job_id)
        if job is not None and job.version == run.job_version:
            assert (kind_of_lane(run.lane), run.run_on) == (job.target.__struct_config__.tag, job.run_on)


def counts_equal_what_they_count(driver: Driver, runs: dict[str, Run]) -> None:
    """C8: rooms and queues are counted where they change; each count equals a recount, and none is exceeded."""
    claims = Counter((run.node, run.session, run.ahead) for run in runs.values() if is_held(run))
    for value in driver.table("sessions").values():
        session = decode_session(value)
        assert session.held_due == claims[session.node, session.incarnation, False] <= session.slots
        assert session.held_ahead == claims[session.node, session.incarnation, True] <= session.ahead
    with driver.snapshot() as snapshot:
        depth, counters = snapshot.queue_depth(), snapshot.counters()
    waiting = Counter(run.priority for run in runs.values() if run.state is RunState.QUEUED and not run.parked)
    assert depth == [waiting[priority] for priority in range(10)]
    states = Counter(run.state for run in runs.values())
    assert counters.runs_dead == sum(counters.dead_by_team.values())
    ended = {state: getattr(counters, f"runs_{state.value}") for state in FINAL_STATES}
    assert all(count >= states[state] for state, count in ended.items())
    assert sum(ended.values()) >= sum(states[state] for state in FINAL_STATES) + counters.runs_pruned
    assert counters.jobs == len(driver.table("jobs"))
    uses_equal_a_recount(driver, runs)


def uses_equal_a_recount(driver: Driver, runs: dict[str, Run]) -> None:
    """I7: what each team is counted to have and hold, and what each session holds of the kinds that it limits, by a
    recount of `jobs`, `claims` and detached runs."""
    jobs = Counter(decode_job(value).team for value in driver.table("jobs").values())
    claimed = [runs[key.split(b"\0", 1)[1][8:].decode()] for key in driver.table("claims")]
    held = Counter(run.team for run in [*claimed, *(run for run in runs.values() if run.lease is not None)])
    ahead = Counter(run.team for run in claimed if run.ahead)
    groups = Counter(run.lane[-1] for run in claimed if run.lane[1] & LANE_SLOW)
    assert groups == Counter(slow_held_of(driver))
    kinds = Counter((run.node, run.session, run.ahead, kind_of_lane(run.lane)) for run in claimed)
    for session in map(decode_session, driver.table("sessions").values()):
        for kind, most in session.kind_slots.items():
            mine = session.node, session.incarnation
            assert session.kinds_due.get(kind, 0) == kinds[*mine, False, kind] <= most
            assert session.kinds_ahead.get(kind, 0) == kinds[*mine, True, kind] <= most
    with driver.snapshot() as snapshot:
        uses = {key.decode(): snapshot.team_use(key.decode()) for key in driver.table("team_use")}
    counted = {name: (use.jobs, use.held, use.held_ahead) for name, use in uses.items()}
    assert counted == {team: (jobs[team], held[team], ahead[team]) for team in {*jobs, *held}}


def slow_held_of(driver: Driver) -> dict[int, int]:
    value = driver.table("meta").get(SLOW_HELD_KEY)
    return {} if value is None else decode_slow_held(value)


def each_job_stands_at_one_tick(driver: Driver) -> None:
    """The due index has at most one entry a job, at the tick that the job's rows say comes next."""
    places = [split_due_key(key) for key in driver.table("due")]
    ticks = {job_id: due_ms for due_ms, _, job_id in places}
    assert len(ticks) == len(places)
    assert all(bucket == bucket_of(job_id) for _, bucket, job_id in places)
    with driver.snapshot() as snapshot:
        jobs = snapshot.jobs(limit=10_000)
        assert {job.job_id: snapshot.next_run_ms(job.job_id) for job in jobs} == {
            job.job_id: ticks.get(job.job_id) for job in jobs
        }
        assert set(ticks) <= {job.job_id for job in jobs}


def lists_are_complete(driver: Driver, runs: dict[str, Run]) -> None:
    """Every index row has its record, and every record its rows."""
    rows = {run_id: row_key(key) for run_id in runs if (key := parse_run_id(run_id))}
    assert set(rows) == set(runs)
    assert set(driver.table("job_runs")) == set(rows.values())
    active = {key.split(b"\0", 1)[1].decode() for key in driver.table("active_by_job")}
    assert active == {run_id for run_id, run in runs.items() if run.exclusive and run.state not in FINAL_STATES}
    dead = {dead_key(run.team, run_id) for run_id, run in runs.items() if run.state is RunState.DEAD}
    assert set(driver.table("dead_runs")) == dead
    jobs = [decode_job(value) for value in driver.table("jobs").values()]
    assert set(driver.table("team_jobs")) == {f"{job.team}\0{job.job_id}".encode() for job in jobs}
    open_runs = [run_id for run_id, run in runs.items() if "-b" in run_id and run.state not in FINAL_STATES]
    outstanding = {f"{run_id.partition('-b')[2]}\0{run_id}".encode() for run_id in open_runs}
    assert set(driver.table("backfill_runs")) == outstanding
    backfills = [decode_backfill(value) for value in driver.table("backfills").values()]
    assert set(driver.table("active_backfills")) == {
        one.backfill_id.encode() for one in backfills if one.state == "running"
    }
    assert set(driver.table("job_backfills")) == {f"{one.job_id}\0{one.backfill_id}".encode() for one in backfills}
    named = {f"{name}\0{job.job_id}".encode() for job in jobs for name in job.exclude_calendars}
    assert set(driver.table("calendar_jobs")) == named
    assert {key.split(b"\0")[0] for key in named} <= set(driver.table("calendars"))
    assert sorted(driver.table("job_names").values()) == sorted(job.job_id.encode() for job in jobs)
    live = {
        (session.node, session.incarnation)
        for session in map(decode_session, driver.table("sessions").values())
        if session.live
    }
    holding = {(run.node, run.session) for run in runs.values() if is_held(run)}
    ended = {split_session_key(key) for key in driver.table("ended_sessions")}
    assert holding - live <= ended and not ended & live


def histories_add_up(driver: Driver, runs: dict[str, Run]) -> None:
    """Each job's history, with what is not settled yet, equals a recount over all of its runs."""
    stats = {key.decode(): decode_stats(value) for key, value in driver.table("job_stats").items()}
    for value in driver.table("ended").values():
        ending = decode_ending(value)
        key = parse_run_id(ending.run_id)
        assert key is not None
        stats[key.job_id] = with_ending(stats.get(key.job_id, JobStats()), ending)
    with driver.snapshot() as snapshot:
        pruned = snapshot.counters().runs_pruned
    for job_id, found in stats.items():
        states = Counter(run.state for run in runs.values() if run.job_id == job_id)
        missing = {state: getattr(found, state.value) - states[state] for state in FINAL_STATES}
        assert all(count >= 0 for count in missing.values()) and (pruned or not any(missing.values()))
    assert {run.job_id for run in runs.values() if run.state in FINAL_STATES} <= set(stats)


def nothing_is_parked_for_ever(runs: dict[str, Run]) -> None:
    """I4: what is parked has an active run of its job before it, whose end promotes it (dkron#349)."""
    parked = {run.job_id for run in runs.values() if run.parked and run.state is RunState.QUEUED}
    active = {run.job_id for run in runs.values() if run.exclusive and run.state not in FINAL_STATES}
    assert parked <= active


def deadlines_stand_where_they_are_looked_for(driver: Driver, runs: dict[str, Run]) -> None:
    """I4: of every run that is not final, the time at which it is ended; of others none."""
    expected = set()
    for run_id, run in runs.items():
        begun = run.state not in (RunState.SCHEDULED, RunState.QUEUED) or bool(run.attempts)
        at_ms = run.end_by_ms if begun or run.start_by_ms is None else run.start_by_ms
        if at_ms is not None and run.state not in FINAL_STATES:
            expected.add((at_ms, bucket_of(run.job_id), run_id))
    assert {split_due_key(key) for key in driver.table("deadlines")} == expected

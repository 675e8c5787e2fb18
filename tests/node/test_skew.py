"""The wall clocks of the nodes, compared by their renewals."""

from __future__ import annotations

from node.interface import JobDraft, NoopTarget, RunState
from node.skew import ClockSkews
from tests.node.conftest import LiveNode


class StandingClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def wall_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    boottime = monotonic


def test_a_wrong_clock_shows_against_the_median() -> None:
    clock = StandingClock()
    skews = ClockSkews(clock)
    for node, wall_ms in (("n1", 999_995), ("n2", 1_059_993), ("n3", 999_997)):
        skews.heard(node, wall_ms)
    assert skews.skews_s(["n1", "n2", "n3"]) == {"n1": -0.002, "n2": 59.996, "n3": 0.0}


def test_the_delay_of_the_log_cancels_out() -> None:
    clock = StandingClock()
    skews = ClockSkews(clock)
    for node in ("n1", "n2", "n3"):
        sent_ms = clock.ms
        clock.ms += 40
        skews.heard(node, sent_ms)
    assert set(skews.skews_s(["n1", "n2", "n3"]).values()) == {0.0}


def test_only_live_nodes_that_were_heard_are_compared() -> None:
    skews = ClockSkews(StandingClock())
    skews.heard("n1", 1_000_000)
    skews.heard("n2", 0)
    assert skews.skews_s(["n1", "n3"]) == {"n1": 0.0}
    assert skews.skews_s([]) == {}


async def test_a_node_shows_its_skew_and_where_its_state_stands(live: LiveNode) -> None:
    """The answer of GET /v1/cluster has numbers for both, of every node."""

    def renewed() -> int | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        return session.applied_index if session is not None and session.applied_index > 0 else None

    assert await live.wait_until(renewed) > 0
    (node,) = (await live.service.cluster()).nodes
    assert node.skew_s == 0.0
    assert b"horae_clock_skew_seconds 0.0" in live.service.metrics_text()[0]


async def test_a_claim_ahead_of_its_time_is_not_shown_as_running(live: LiveNode) -> None:
    draft = JobDraft(name="later", schedule="@every 1s", target=NoopTarget())
    job_id = (await live.service.create_job(draft)).job_id
    await live.wait_for_runs(job_id, (RunState.SUCCEEDED,), 1)

    def held_and_renewed() -> tuple[int, int] | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        if session is None or session.renewal == 0 or session.held_ahead == 0:
            return None
        return session.running, session.held_ahead

    running, held = await live.wait_until(held_and_renewed)
    assert running == 0 < held

"""The node's views, on the real state machine."""

from __future__ import annotations

from node.state_view import SnapshotView
from node.ticker import BUCKET_AFTER_ALL, DueTick
from statemachine.codec import encode_command
from statemachine.commands import PutJob
from statemachine.keys import bucket_of
from statemachine.records import BUCKETS, Job, NoopTarget
from tests.node.conftest import LiveNode

DUE_MS = 5_000_000


def put(job_id: str, due_ms: int) -> bytes:
    job = Job(
        job_id=job_id, name=job_id, team="t", target=NoopTarget(), created_ms=1, updated_ms=1, first_due_ms=due_ms
    )
    return encode_command(PutJob(now_ms=1, job=job))


async def test_due_ticks_come_in_order_and_go_on_behind_a_place(idle: LiveNode) -> None:
    idle.log.apply([put(f"J{number}", DUE_MS + number % 3) for number in range(30)])
    with idle.snapshot() as snapshot:
        view = SnapshotView(snapshot)
        ticks = list(view.due_ticks(None, DUE_MS + 1))
        assert ticks == sorted(ticks) and len(ticks) == 20
        assert all(tick.bucket == bucket_of(tick.job_id) and tick.version == 1 for tick in ticks)
        assert list(view.due_ticks(ticks[4], DUE_MS + 1)) == ticks[5:]
        before = DueTick(DUE_MS, BUCKET_AFTER_ALL, "", 0)
        assert list(view.due_ticks(before, DUE_MS + 1)) == ticks[10:]


async def test_a_burst_is_estimated_from_a_part_of_the_buckets(idle: LiveNode) -> None:
    idle.log.apply([put(f"J{number}", DUE_MS) for number in range(6000)])
    idle.log.apply([put("later", DUE_MS + 1500), put("too-late".replace("-", ""), DUE_MS + 10_000)])
    with idle.snapshot() as snapshot:
        view = SnapshotView(snapshot)
        counts = view.due_counts(DUE_MS, DUE_MS + 9_000, window_ms=1000, instants_max=10)
        assert set(counts) == {DUE_MS, DUE_MS + 1000}
        assert 3000 < counts[DUE_MS] < 12_000
        assert counts[DUE_MS + 1000] >= 1
        assert set(view.due_counts(DUE_MS, DUE_MS + 9_000, window_ms=1000, instants_max=1)) == {DUE_MS}
        assert view.due_counts(DUE_MS + 1, DUE_MS + 1400, window_ms=1000, instants_max=10) == {}


async def test_a_burst_that_is_fired_in_part_is_not_taken_for_over(idle: LiveNode) -> None:
    """Ticks are fired in the order of their buckets: of this burst, the first half has gone."""
    names = [f"J{number}" for number in range(6000)]
    idle.log.apply([put(name, DUE_MS) for name in names if bucket_of(name) >= BUCKETS // 2])
    with idle.snapshot() as snapshot:
        counts = SnapshotView(snapshot).due_counts(DUE_MS, DUE_MS + 9_000, window_ms=1000, instants_max=10)
        assert counts[DUE_MS] > 3000

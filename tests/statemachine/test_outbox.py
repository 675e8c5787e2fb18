"""The outbox: bounded as a whole and by team, patient, and not for ever (M18)."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import commands as c
from statemachine import outbox
from statemachine.history_records import Notification
from statemachine.limits import NOTIFICATION_TRIES_MAX
from statemachine.records import AttemptOutcome, Notify, Team
from statemachine.tables import OUTBOX_KEY
from tests.statemachine.driver import NOW_MS, Driver, fire, tick
from tests.statemachine.test_settling import renew

DUE_MS = NOW_MS + 1000
HOUR_MS = 3_600_000


TELL = Notify(url="http://a")


def die(driver: Driver, job_id: str, *, due_ms: int = DUE_MS, team: str = "t", notify: Notify | None = TELL) -> None:
    """One run of a job that tells of its end."""
    driver.put(job_id, team=team, max_retries=0, notify=notify, first_due_ms=due_ms)
    run_id = f"{due_ms:012x}-{job_id}"
    driver.apply(fire(tick(due_ms, None, job_id=job_id)))
    driver.apply(
        c.Finish(
            now_ms=NOW_MS, run_id=run_id, token=1, outcome=AttemptOutcome.FAILED, started_ms=NOW_MS, finished_ms=NOW_MS
        )
    )


def owed(driver: Driver) -> list[Notification]:
    with driver.snapshot() as snapshot:
        return list(snapshot.notifications_until(2**47 - 1))


def report(driver: Driver, notification: Notification, error: str | None = None) -> str:
    """The end of a try, at the time that it was due."""
    at_ms = notification.next_ms
    reply = driver.apply(
        c.RenewSession(now_ms=at_ms, node="n1", incarnation=1, renewal=1),
        c.ReportNotification(now_ms=at_ms, at_ms=at_ms, number=notification.number, error=error),
    ).replies[1]
    return str(reply.code)


def test_tries_go_on_for_hours_ever_more_rarely_and_then_it_is_given_up(owned: Driver) -> None:
    die(owned, "A")
    renew(owned, 1)
    waits_ms, before_ms = [], NOW_MS
    for _ in range(NOTIFICATION_TRIES_MAX):
        [notification] = owed(owned)
        waits_ms.append(notification.next_ms - before_ms)
        before_ms = notification.next_ms
        with owned.snapshot() as snapshot:
            assert list(snapshot.notifications_until(notification.next_ms - 1)) == []
        assert report(owned, notification, "connection refused") == "ok"
    assert waits_ms == sorted(waits_ms)
    assert (waits_ms[0], waits_ms[1], waits_ms[-1]) == (0, 5_000, HOUR_MS)
    assert 5 * HOUR_MS < sum(waits_ms) < 8 * HOUR_MS
    assert owed(owned) == []
    with owned.snapshot() as snapshot:
        assert snapshot.counters().notifications_failed == 1
        assert snapshot.notifications_pending() == 0
    assert report(owned, notification) == "unknown_notification"


def test_a_team_with_a_dead_receiver_fills_its_own_share_only(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "OUTBOX_TEAM_MAX", 2)
    for job_id in "ABC":
        die(owned, job_id)
    die(owned, "D", team="u")
    renew(owned, 1)
    assert [one.job_id for one in owed(owned)] == ["A", "B", "D"]
    with owned.snapshot() as snapshot:
        assert snapshot.counters().notifications_failed == 1
        # What found no room is not taken for told.
        assert [snapshot.job_stats(job_id).told_failing for job_id in "ABCD"] == [True, True, False, True]
    for notification in owed(owned):
        report(owned, notification)
    assert owned.table("outbox_counts") == {}


def test_the_outbox_is_bounded_as_a_whole(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "OUTBOX_MAX", 2)
    for number, job_id in enumerate("ABC"):
        die(owned, job_id, team=f"t{number}")
    renew(owned, 1)
    assert len(owed(owned)) == 2


def test_numbers_are_given_once_also_when_the_outbox_was_empty_in_between(owned: Driver) -> None:
    for number, job_id in enumerate("AB"):
        die(owned, job_id)
        renew(owned, number + 1)
        [notification] = owed(owned)
        assert notification.number == number
        report(owned, notification)
    assert owned.table("meta")[OUTBOX_KEY] == bytes(7) + b"\x02" + bytes(8)


def test_a_job_that_says_nothing_tells_whom_its_team_names(owned: Driver) -> None:
    """Its own word counts, also if it is that nobody is told."""
    owned.apply(c.PutTeam(now_ms=NOW_MS, team=Team(team="t", notify=Notify(url="http://team"))))
    for job_id, notify in (("A", None), ("B", Notify(url="http://b")), ("C", Notify(on=()))):
        die(owned, job_id, notify=notify)
    renew(owned, 1)
    assert [(one.job_id, one.url) for one in owed(owned)] == [("A", "http://team"), ("B", "http://b")]


@pytest.mark.parametrize(
    "fields", [{"notify": Notify(url="u" * 5000)}, {"keep_runs": -1}, {"keep_days": 1e9}, {"keep_days": float("nan")}]
)
def test_a_team_that_asks_for_what_is_out_of_the_limits_is_refused(owned: Driver, fields: dict[str, Any]) -> None:
    assert owned.apply(c.PutTeam(now_ms=NOW_MS, team=Team(team="t", **fields))).reply.code == "malformed"

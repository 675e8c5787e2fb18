"""A proposal is applied once, whatever the network and its proposer's restarts do to it."""

from __future__ import annotations

import pytest

from statemachine import commands as c
from statemachine.codec import encode_command
from statemachine.limits import PROPOSAL_COMMANDS_MAX, RESULTS_KEPT_MAX
from tests.statemachine.driver import NOW_MS, Driver, Proposal, put_job


def creates(*job_ids: str, seq: int, incarnation: int = 1, acknowledged: int = 0) -> Proposal:
    commands = [encode_command(put_job(job_id)) for job_id in job_ids]
    return Proposal(seq=seq, incarnation=incarnation, acknowledged=acknowledged, commands=commands)


def codes(driver: Driver, proposal: Proposal) -> list[str]:
    return [reply.code for reply in driver.propose(proposal).replies]


def test_a_repeat_gets_the_same_replies_and_changes_nothing(driver: Driver) -> None:
    first = driver.propose(creates("A", "B", seq=1))
    state = {name: driver.table(name) for name in ("jobs", "due", "results", "proposers")}
    again = driver.propose(creates("A", "B", seq=1))
    assert again.replies == first.replies
    assert [reply.code for reply in first.replies] == ["ok", "ok"]
    assert again.events == []
    assert {name: driver.table(name) for name in state} == state


def test_a_repeat_is_known_by_its_name_alone(driver: Driver) -> None:
    driver.propose(creates("A", seq=1))
    assert codes(driver, creates("Z", seq=1)) == ["ok"]
    with driver.snapshot() as snapshot:
        assert snapshot.job("Z") is None


def test_proposals_may_overtake_one_another(driver: Driver) -> None:
    assert codes(driver, creates("B", seq=2)) == ["ok"]
    assert codes(driver, creates("A", seq=1)) == ["ok"]
    assert codes(driver, creates("B", seq=2)) == ["ok"]
    assert driver.propose(None).replies == []
    with driver.snapshot() as snapshot:
        assert [job.job_id for job in snapshot.jobs()] == ["A", "B"]


def test_what_was_acknowledged_is_dropped_and_refused(driver: Driver) -> None:
    for seq in (1, 2, 3):
        driver.propose(creates(f"J{seq}", seq=seq))
    assert len(driver.table("results")) == 3
    driver.propose(creates("J4", seq=4, acknowledged=2))
    assert len(driver.table("results")) == 2
    assert codes(driver, creates("J1", "X", seq=1)) == ["stale_proposal"] * 2
    assert codes(driver, creates("J3", seq=3)) == ["ok"]
    assert codes(driver, creates("X", seq=2)) == ["stale_proposal"]


def test_an_acknowledgement_never_goes_back(driver: Driver) -> None:
    driver.propose(creates("A", seq=5, acknowledged=4))
    driver.propose(creates("B", seq=6, acknowledged=1))
    assert codes(driver, creates("C", seq=4)) == ["stale_proposal"]


def test_a_proposal_cannot_acknowledge_itself(driver: Driver) -> None:
    driver.propose(creates("A", seq=1, acknowledged=99))
    assert codes(driver, creates("A", seq=1)) == ["ok"]


def test_a_newer_incarnation_begins_anew_and_the_older_is_refused(driver: Driver) -> None:
    driver.propose(creates("A", seq=7, acknowledged=6))
    assert codes(driver, creates("B", seq=1, incarnation=2)) == ["ok"]
    assert codes(driver, creates("C", "D", seq=8, incarnation=1)) == ["stale_incarnation"] * 2
    assert codes(driver, creates("A", seq=7, incarnation=1)) == ["stale_incarnation"]
    assert len(driver.table("results")) == 1


def test_the_state_knows_the_last_incarnation_of_each_node(driver: Driver) -> None:
    driver.propose(creates("A", seq=1, incarnation=4))
    with driver.environment.begin() as transaction:
        known = [driver.machine.incarnation_of(transaction, node) for node in ("n1", "n2")]
    assert known == [4, 0]


def test_proposers_do_not_meet(driver: Driver) -> None:
    for node in ("n1", "n10", "n"):
        [reply] = driver.propose(Proposal(node=node, seq=1, commands=[encode_command(put_job(node))])).replies
        assert reply.code == "ok"
    driver.propose(Proposal(node="n1", incarnation=2, seq=9, acknowledged=8, commands=[]))
    assert len(driver.table("results")) == 3
    assert len(driver.table("proposers")) == 3


def test_results_that_nobody_acknowledges_are_bounded(driver: Driver) -> None:
    driver.propose(creates("A", seq=1))
    driver.propose(creates("B", seq=RESULTS_KEPT_MAX + 1))
    assert len(driver.table("results")) == 1
    assert codes(driver, creates("A", seq=1)) == ["stale_proposal"]


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(node="", seq=1, commands=[b""]),
        Proposal(node="n\0", seq=1, commands=[b""]),
        Proposal(node="n" * 65, seq=1, commands=[b""]),
        Proposal(seq=0, commands=[b""]),
        Proposal(seq=-1, commands=[b""]),
        Proposal(seq=2**60, commands=[b""]),
        Proposal(incarnation=-1, seq=1, commands=[b""]),
        Proposal(seq=1, commands=[b""] * (PROPOSAL_COMMANDS_MAX + 1)),
    ],
    ids=range(8),
)
def test_a_name_out_of_its_limits_is_malformed(driver: Driver, proposal: Proposal) -> None:
    assert set(codes(driver, proposal)) == {"malformed"}
    assert driver.table("results") == {}


def test_each_command_has_its_reply_in_order(driver: Driver) -> None:
    commands = [b"nonsense", encode_command(put_job("A")), encode_command(c.DeleteJob(now_ms=NOW_MS, job_id="B"))]
    assert codes(driver, Proposal(seq=1, commands=commands)) == ["malformed", "ok", "unknown_job"]
    assert codes(driver, Proposal(seq=2, commands=[])) == []

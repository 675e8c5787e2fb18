"""The leader's duties: the dead are expired on this leader's own clock, their buckets move before that, and a leader
that was away suspects nobody."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest

from node.config import ClusterSettings
from node.duties import BALANCED_AGAIN_AFTER_S, DUTY_AGAIN_AFTER_S, Duty, DutyDone, LeaderDuties
from statemachine.commands import AssignBuckets, ExpireSession, SuspectSession
from statemachine.limits import CLOCK_OFF_MS
from statemachine.records import BucketOwner, Session

CLUSTER = ClusterSettings()
STEP_S = 0.25


def session(node: str, *, renewal: int = 0, incarnation: int = 1, draining: bool = False, live: bool = True) -> Session:
    return Session(
        node=node,
        incarnation=incarnation,
        live=live,
        http="",
        raft="",
        slots=1,
        ahead=1,
        renewal=renewal,
        wall_ms=0,
        opened_ms=0,
        version="",
        tzdata="",
        draining=draining,
    )


@dataclass
class Cluster:
    """The state that the duties look at; `renew` is what a live node does."""

    nodes: dict[str, Session] = field(default_factory=dict)
    owners: list[BucketOwner] = field(default_factory=list)
    ended: list[tuple[str, int]] = field(default_factory=list)
    clock: int | None = 0
    looks: int = 0
    """How often all buckets were read."""

    def sessions(self) -> list[Session]:
        return list(self.nodes.values())

    def bucket_owners(self) -> list[BucketOwner]:
        self.looks += 1
        return self.owners

    def clock_ms(self) -> int | None:
        return self.clock

    def ended_sessions(self) -> list[tuple[str, int]]:
        return self.ended

    def renew(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = msgspec.structs.replace(self.nodes[name], renewal=self.nodes[name].renewal + 1)


@pytest.fixture
def cluster() -> Cluster:
    """Three live nodes that own two buckets each."""
    names = ("n1", "n2", "n3")
    owners = [BucketOwner(node=names[bucket % 3], epoch=1) for bucket in range(6)]
    return Cluster(nodes={name: session(name) for name in names}, owners=owners)


def watch(
    duties: LeaderDuties, cluster: Cluster, *, from_s: float, until_s: float, renewing: tuple[str, ...]
) -> list[tuple[float, Duty]]:
    """Step through a span of time in which these nodes renew."""
    proposed: list[tuple[float, Duty]] = []
    steps = round((until_s - from_s) / STEP_S)
    for number in range(steps + 1):
        now_s = from_s + number * STEP_S
        if number % 6 == 0:
            cluster.renew(*renewing)
        proposed += [(now_s, duty) for duty in duties.step(now_s, round(now_s * 1000), cluster)]
    return proposed


def test_a_healthy_balanced_cluster_needs_nothing(cluster: Cluster) -> None:
    assert watch(LeaderDuties(CLUSTER), cluster, from_s=0, until_s=30, renewing=("n1", "n2", "n3")) == []
    assert cluster.looks <= 1 + 30 / BALANCED_AGAIN_AFTER_S, "all buckets are read when they moved, or now and then"


@pytest.mark.parametrize("told", [True, False])
def test_buckets_that_others_moved_are_given_back(cluster: Cluster, told: bool) -> None:
    """By a deposed leader's last order, say: at once if the word of it came, and soon if it was lost."""
    duties = LeaderDuties(CLUSTER)
    everybody = ("n1", "n2", "n3")
    watch(duties, cluster, from_s=0, until_s=0, renewing=everybody)
    cluster.owners[1] = BucketOwner(node="n1", epoch=2)
    if told:
        duties.buckets_moved()
    moved_s, move = watch(duties, cluster, from_s=STEP_S, until_s=3, renewing=everybody)[0]
    assert isinstance(move.command, AssignBuckets)
    assert moved_s == (STEP_S if told else BALANCED_AGAIN_AFTER_S)


def test_a_silent_node_loses_its_buckets_when_suspect_and_its_claims_after_the_ttl(cluster: Cluster) -> None:
    proposed = watch(LeaderDuties(CLUSTER), cluster, from_s=0, until_s=6.25, renewing=("n1", "n2"))
    (suspected_s, suspicion), (moved_s, move) = proposed[:2]
    assert suspicion.command == SuspectSession(now_ms=2000, node="n3", incarnation=1, renewal=0)
    assert suspected_s == CLUSTER.suspect_after_s
    assert isinstance(move.command, AssignBuckets)
    assert {m.bucket for m in move.command.moves} == {2, 5}
    assert moved_s == CLUSTER.suspect_after_s
    ((expired_s, expiry),) = [(at_s, duty) for at_s, duty in proposed if isinstance(duty.command, ExpireSession)]
    assert expiry.command == ExpireSession(now_ms=6000, node="n3", incarnation=1, renewal=0)
    assert expired_s == CLUSTER.session_ttl_s


def test_a_new_leader_grants_everybody_a_full_ttl(cluster: Cluster) -> None:
    duties = LeaderDuties(CLUSTER)
    watch(duties, cluster, from_s=0, until_s=1, renewing=("n1", "n2"))
    duties.stand_down()
    proposed = watch(duties, cluster, from_s=5, until_s=5 + CLUSTER.session_ttl_s - STEP_S, renewing=("n1", "n2"))
    assert not [duty for _, duty in proposed if isinstance(duty.command, ExpireSession)]
    assert proposed[0][0] == 5 + CLUSTER.suspect_after_s


def test_a_leader_that_stalled_grants_it_too(cluster: Cluster) -> None:
    duties = LeaderDuties(CLUSTER)
    watch(duties, cluster, from_s=0, until_s=5.75, renewing=("n1", "n2"))
    assert duties.step(40.0, 40_000, cluster) == []
    assert duties.silent_s(40.0, "n3") == 0


def test_a_renewal_in_time_clears_the_suspicion(cluster: Cluster) -> None:
    duties = LeaderDuties(CLUSTER)
    watch(duties, cluster, from_s=0, until_s=1.75, renewing=("n1", "n2"))
    assert watch(duties, cluster, from_s=2, until_s=3, renewing=("n1", "n2", "n3")) == []


def test_a_new_incarnation_is_a_sign_of_life(cluster: Cluster) -> None:
    duties = LeaderDuties(CLUSTER)
    watch(duties, cluster, from_s=0, until_s=1.75, renewing=("n1", "n2"))
    cluster.nodes["n3"] = session("n3", incarnation=2)
    assert duties.step(2.0, 2000, cluster) == []


def test_a_draining_node_hands_over_its_buckets(cluster: Cluster) -> None:
    cluster.nodes["n1"] = session("n1", draining=True)
    (duty,) = LeaderDuties(CLUSTER).step(0.0, 0, cluster)
    assert isinstance(duty.command, AssignBuckets)
    assert {move.node for move in duty.command.moves} == {"n2", "n3"}


def test_a_node_that_takes_no_buckets_gets_none(cluster: Cluster) -> None:
    """A worker-only node runs what others fired (M25)."""
    cluster.nodes["w1"] = msgspec.structs.replace(session("w1"), takes_buckets=False)
    assert LeaderDuties(CLUSTER).step(0.0, 0, cluster) == []
    cluster.nodes["n1"] = session("n1", draining=True)
    (duty,) = LeaderDuties(CLUSTER).step(0.0, 0, cluster)
    assert isinstance(duty.command, AssignBuckets)
    assert {move.node for move in duty.command.moves} == {"n2", "n3"}


def test_ended_sessions_are_reaped_until_nothing_remains(cluster: Cluster) -> None:
    cluster.ended = [("n3", 1)]
    cluster.nodes["n3"] = session("n3", incarnation=2)
    duties = LeaderDuties(CLUSTER)
    (duty,) = duties.step(0.0, 0, cluster)
    assert duty.command == ExpireSession(now_ms=0, node="n3", incarnation=1, renewal=0)
    assert duties.step(0.25, 250, cluster, [DutyDone(duty=duty.name)]) == [
        replace(duty, command=ExpireSession(now_ms=250, node="n3", incarnation=1, renewal=0))
    ]


def test_a_duty_is_proposed_once_until_its_result_or_for_a_while(cluster: Cluster) -> None:
    cluster.nodes["n1"] = session("n1", live=False)
    duties = LeaderDuties(CLUSTER)
    (duty,) = duties.step(0.0, 0, cluster)
    assert duties.step(0.25, 250, cluster) == []
    assert duties.step(0.5, 500, cluster, [DutyDone(duty=duty.name)]) != []
    proposed = watch(duties, cluster, from_s=0.75, until_s=5, renewing=("n2", "n3"))
    assert proposed[0][0] == 0.5 + DUTY_AGAIN_AFTER_S


def test_a_suspicion_is_said_until_it_is_applied(cluster: Cluster) -> None:
    duties = LeaderDuties(CLUSTER)
    everybody_else = ("n1", "n2")

    def suspicions(from_s: float, until_s: float) -> int:
        proposed = watch(duties, cluster, from_s=from_s, until_s=until_s, renewing=everybody_else)
        return sum(isinstance(duty.command, SuspectSession) for _, duty in proposed)

    assert suspicions(0.0, 2.0 + DUTY_AGAIN_AFTER_S) == 2
    cluster.nodes["n3"] = msgspec.structs.replace(cluster.nodes["n3"], suspect=True)
    assert suspicions(4.25, 5.75) == 0


# --- wrong clocks


def set_clock(cluster: Cluster, node: str, by_ms: int) -> None:
    cluster.nodes[node] = msgspec.structs.replace(cluster.nodes[node], wall_ms=by_ms)


@pytest.mark.parametrize("by_ms", [-CLOCK_OFF_MS - 1, CLOCK_OFF_MS + 1])
def test_a_node_whose_clock_is_off_loses_its_buckets_and_keeps_its_session(cluster: Cluster, by_ms: int) -> None:
    duties, everybody = LeaderDuties(CLUSTER), ("n1", "n2", "n3")
    watch(duties, cluster, from_s=0, until_s=1, renewing=everybody)
    set_clock(cluster, "n3", by_ms)
    proposed = watch(duties, cluster, from_s=1.25, until_s=12, renewing=everybody)
    moved_s, move = proposed[0]
    assert moved_s == 1.25 + CLUSTER.suspect_after_s
    assert isinstance(move.command, AssignBuckets)
    assert {(m.bucket, m.node != "n3") for m in move.command.moves} == {(2, True), (5, True)}
    assert all(isinstance(duty.command, AssignBuckets) for _, duty in proposed)


def test_its_buckets_come_back_when_it_is_right_again(cluster: Cluster) -> None:
    duties, everybody = LeaderDuties(CLUSTER), ("n1", "n2", "n3")
    cluster.owners = [BucketOwner(node="n1", epoch=1)] * 3 + [BucketOwner(node="n2", epoch=1)] * 3
    set_clock(cluster, "n3", CLOCK_OFF_MS + 1)
    watch(duties, cluster, from_s=0, until_s=1.75, renewing=everybody)
    assert watch(duties, cluster, from_s=2, until_s=4, renewing=everybody) == []
    set_clock(cluster, "n3", CLOCK_OFF_MS)
    duties.buckets_moved()
    ((_, move),) = watch(duties, cluster, from_s=4.25, until_s=4.25, renewing=everybody)
    assert isinstance(move.command, AssignBuckets) and {m.node for m in move.command.moves} == {"n3"}


def test_the_first_to_renew_after_an_outage_does_not_look_like_a_wrong_clock(cluster: Cluster) -> None:
    """The cluster's clock is still of before."""
    duties, everybody = LeaderDuties(CLUSTER), ("n1", "n2", "n3")
    watch(duties, cluster, from_s=0, until_s=1, renewing=everybody)
    set_clock(cluster, "n1", 3_600_000)
    assert watch(duties, cluster, from_s=1.25, until_s=2.5, renewing=everybody) == []
    cluster.clock = 3_600_000
    set_clock(cluster, "n2", 3_600_000)
    assert watch(duties, cluster, from_s=2.75, until_s=4, renewing=everybody) == []

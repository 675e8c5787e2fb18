"""The plan of bucket moves: balanced, minimal, and naming the epoch that it saw."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from node.buckets import plan_moves
from statemachine.records import BucketOwner

NODES = ("n1", "n2", "n3", "n4", "n5")
owners_of_any_kind = st.lists(
    st.builds(
        lambda node, epoch: BucketOwner(node=node, epoch=epoch),
        st.sampled_from((None, *NODES)),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=64,
)


def after(owners: list[BucketOwner], nodes: frozenset[str]) -> list[str | None]:
    moved = [owner.node for owner in owners]
    for move in plan_moves(owners, nodes):
        moved[move.bucket] = move.node
    return moved


@given(owners_of_any_kind, st.frozensets(st.sampled_from(NODES), min_size=1))
def test_every_bucket_is_owned_and_no_two_nodes_differ_by_more_than_one(
    owners: list[BucketOwner], nodes: frozenset[str]
) -> None:
    counts = Counter(after(owners, nodes))
    assert set(counts) <= nodes
    shares = [counts[node] for node in nodes]
    assert sum(shares) == len(owners)
    assert max(shares) - min(shares) <= 1


@given(owners_of_any_kind, st.frozensets(st.sampled_from(NODES), min_size=1))
def test_no_plan_moves_fewer_buckets(owners: list[BucketOwner], nodes: frozenset[str]) -> None:
    held = Counter(owner.node for owner in owners if owner.node in nodes)
    share, left_over = divmod(len(owners), len(nodes))
    # The buckets that can stay: each node keeps at most its share, and `left_over` nodes one more.
    kept = sum(min(held[node], share) for node in nodes)
    kept += min(sum(held[node] > share for node in nodes), left_over)
    assert len(plan_moves(owners, nodes)) == len(owners) - kept


@given(owners_of_any_kind, st.frozensets(st.sampled_from(NODES), min_size=1))
def test_each_move_names_the_epoch_and_a_second_plan_has_nothing_to_do(
    owners: list[BucketOwner], nodes: frozenset[str]
) -> None:
    moves = plan_moves(owners, nodes)
    assert all(move.expected_epoch == owners[move.bucket].epoch for move in moves)
    assert len({move.bucket for move in moves}) == len(moves)
    settled = list(owners)
    for move in moves:
        settled[move.bucket] = BucketOwner(node=move.node, epoch=move.expected_epoch + 1)
    assert plan_moves(settled, nodes) == ()


def test_without_nodes_nothing_moves() -> None:
    assert plan_moves([BucketOwner(node="n1", epoch=3)], ()) == ()


def test_a_node_that_joins_takes_its_share_and_nothing_else_moves() -> None:
    owners = [BucketOwner(node=("n1", "n2")[bucket % 2], epoch=1) for bucket in range(1024)]
    moves = plan_moves(owners, ("n1", "n2", "n3"))
    assert {move.node for move in moves} == {"n3"}
    assert len(moves) == 341

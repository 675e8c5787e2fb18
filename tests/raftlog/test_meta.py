from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from raftlog.config import Identity
from raftlog.disk import LmdbDisk
from raftlog.errors import LogRefused
from raftlog.meta import MetaStore

MEMBERS = ("n1", "n2", "n3")


def identity(node: str = "n1", cluster_id: str = "horae", *, bootstrap: bool = False) -> Identity:
    return Identity(node=node, members=MEMBERS, cluster_id=cluster_id, bootstrap=bootstrap)


@pytest.fixture
def disk(tmp_path: Path) -> LmdbDisk:
    return LmdbDisk(tmp_path, map_bytes=16 * 1024 * 1024, synchronous=False)


def test_every_start_raises_the_incarnation(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    assert [meta.open(identity()) for _ in range(3)] == [1, 2, 3]


def test_an_uncommitted_start_does_not_count(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity())
    disk.abort()
    assert meta.open(identity()) == 1


def test_another_clusters_store_is_refused(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity())
    with pytest.raises(LogRefused, match="another cluster"):
        meta.open(identity(cluster_id="other"))


def test_another_nodes_store_is_refused(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity())
    with pytest.raises(LogRefused, match="belongs to node 'n1'"):
        meta.open(identity("n2"))


@pytest.mark.parametrize("members", [("n1",), ("n1", "n2"), ("n1", "n2", "n4"), ("n1", "n2", "n3", "n4")])
def test_other_members_are_refused(disk: LmdbDisk, members: tuple[str, ...]) -> None:
    """A node started with fewer peers than before would be a majority of its own beside that of the others."""
    meta = MetaStore(disk)
    meta.open(identity())
    with pytest.raises(LogRefused, match="a cluster of n1, n2, n3"):
        meta.open(Identity(node="n1", members=members, cluster_id="horae", bootstrap=True))


def test_the_order_of_the_members_means_nothing(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity())
    assert meta.open(Identity(node="n1", members=MEMBERS[::-1], cluster_id="horae")) == 2


def test_another_format_is_refused(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity())
    disk.transaction.put(b"format", msgpack.packb(99), db=meta._database)
    with pytest.raises(LogRefused, match="format 99"):
        meta.open(identity())


def test_term_and_vote_are_kept_together(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    assert meta.ballot() == (0, None)
    meta.put_ballot(7, "n2")
    assert meta.ballot() == (7, "n2")


def test_only_the_first_start_may_bootstrap(disk: LmdbDisk) -> None:
    """The flag given later, by mistake, to a store that was made without it: it stays without a vote."""
    meta = MetaStore(disk)
    meta.open(identity())
    meta.open(identity(bootstrap=True))
    assert not meta.joined()


def test_a_bootstrapped_store_may_vote(disk: LmdbDisk) -> None:
    meta = MetaStore(disk)
    meta.open(identity(bootstrap=True))
    assert meta.joined()

"""What a store remembers beside its log: whose it is, how often it was started, term and vote, may it vote."""

from __future__ import annotations

from typing import Any

import msgpack

from raftlog.config import Identity
from raftlog.disk import Disk
from raftlog.errors import LogRefused

FORMAT_VERSION = 2
"""Of everything in `raft/log` and `raft/meta`."""

_FORMAT = b"format"
_CLUSTER = b"cluster_id"
_NODE = b"node"
_MEMBERS = b"members"
_INCARNATION = b"incarnation"
_BALLOT = b"term_and_vote"
_COMMIT_INDEX = b"commit_index"
_JOINED = b"joined"
_RECEIVING = b"receiving"


class MetaStore:
    """The named database `raft/meta`. Every write is part of the tick's transaction."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._database = disk.database("raft/meta")

    def ballot(self) -> tuple[int, str | None]:
        """The current term and who got this node's vote in it."""
        term, vote = self._get(_BALLOT, (0, None))
        return term, vote

    def put_ballot(self, term: int, vote: str | None) -> None:
        self._put(_BALLOT, (term, vote))

    def commit_index(self) -> int:
        index: int = self._get(_COMMIT_INDEX, 0)
        return index

    def put_commit_index(self, index: int) -> None:
        self._put(_COMMIT_INDEX, index)

    def joined(self) -> bool:
        """Whether this node may vote and stand; see `joining.py`."""
        return bool(self._get(_JOINED, False))

    def put_joined(self) -> None:
        self._put(_JOINED, True)

    def receiving(self) -> list[Any] | None:
        """The copy of the state that is being received; see `snapshot_receiving.py`."""
        fields: list[Any] | None = self._get(_RECEIVING, None)
        return fields

    def put_receiving(self, fields: list[Any] | None) -> None:
        self._put(_RECEIVING, fields)

    def open(self, identity: Identity) -> int:
        """Check that the store is this node's, or make a new one its own; count the start. Returns the incarnation.

        Raises LogRefused for a store of another format, cluster or node, or of a cluster of other members: two nodes
        that count their majorities among different ones may both have one. The caller commits."""
        stored_format = self._get(_FORMAT, None)
        if stored_format is None:
            self._found(identity)
        else:
            self._check(stored_format, identity)
        return self.next_incarnation()

    def next_incarnation(self, *, least: int = 1) -> int:
        incarnation: int = max(self._get(_INCARNATION, 0) + 1, least)
        self._put(_INCARNATION, incarnation)
        return incarnation

    def _found(self, identity: Identity) -> None:
        self._put(_FORMAT, FORMAT_VERSION)
        self._put(_CLUSTER, identity.cluster_id)
        self._put(_NODE, identity.node)
        self._put(_MEMBERS, sorted(identity.members))
        if identity.bootstrap:
            self.put_joined()

    def _check(self, stored_format: int, identity: Identity) -> None:
        if stored_format != FORMAT_VERSION:
            raise LogRefused(f"the data directory has format {stored_format}, this version reads {FORMAT_VERSION}")
        cluster_id, node = self._get(_CLUSTER, None), self._get(_NODE, None)
        if cluster_id != identity.cluster_id:
            raise LogRefused("the data directory belongs to another cluster (or the cluster secret was changed)")
        if node != identity.node:
            raise LogRefused(f"the data directory belongs to node {node!r}, this is {identity.node!r}")
        given = sorted(identity.members)
        members = self._get(_MEMBERS, given)
        if members != given:
            raise LogRefused(
                f"the data directory belongs to a cluster of {', '.join(members)}, but the peers given now are "
                f"{', '.join(given)}; the members of a cluster cannot be changed yet"
            )

    def _get(self, key: bytes, default: Any) -> Any:
        stored = self._disk.transaction.get(key, db=self._database)
        return default if stored is None else msgpack.unpackb(stored, raw=False)

    def _put(self, key: bytes, value: Any) -> None:
        self._disk.transaction.put(key, msgpack.packb(value, use_bin_type=True), db=self._database)

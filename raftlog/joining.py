"""Whether this store may vote: a store that lost what it acknowledged must not help elect a leader without it."""

from __future__ import annotations

from raftlog.meta import MetaStore


class Joining:
    """An empty store that was not started with the bootstrap flag has forgotten what a node of its id may have
    acknowledged or voted for. It neither votes nor stands until it has applied everything that the current leader had
    in its log when this node first heard of it, an entry of the leader's own term included: whatever was committed
    with the help of the lost store is in there. From then on, durably, it is a member like any other."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta
        self._joined = meta.joined()
        self._term: int | None = None
        """The term of the leader heard last; none yet."""
        self._target_index = 0

    def may_vote(self) -> bool:
        return self._joined

    def heard(self, term: int, leader_last_index: int) -> None:
        """A leader of `term` was heard; its log reached to `leader_last_index`."""
        if not self._joined and term != self._term:
            self._term, self._target_index = term, leader_last_index

    def applied(self, entry_term: int, index: int) -> None:
        """The entry at `index` was applied; part of the same transaction."""
        if not self._joined and entry_term == self._term and index >= self._target_index:
            self._joined = True
            self._meta.put_joined()

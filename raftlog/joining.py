"""Whether this store may vote, and counts: a store that lost what it acknowledged must not help elect a leader without
it, nor help a leader of before to go on."""

from __future__ import annotations

from raftlog.meta import MetaStore


class Joining:
    """An empty store that was not started with the bootstrap flag has forgotten what a node of its id may have
    acknowledged or voted for. It neither votes nor stands, and its answers count for nothing, until

    - a majority without it has confirmed that its leader leads, after this node first heard of it: else it may be one
      that was deposed with the help of the lost store; and
    - it has applied everything that this leader had in its log when first heard, an entry of the leader's own term
      included: whatever was committed with the help of the lost store is in there.

    From then on, durably, it is a member like any other."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta
        self._joined = meta.joined()
        self._term: int | None = None
        """The term of the leader heard last; none yet."""
        self._first_seq = self._target_index = 0
        self._is_confirmed = self._has_applied = False

    def has_joined(self) -> bool:
        return self._joined

    def heard(self, term: int, leader_last_index: int, seq: int, confirmed_seq: int) -> None:
        """A leader of `term` was heard; its log reached to `leader_last_index`. It sent its append_entries `seq`, and
        knew that it led when it sent `confirmed_seq`."""
        if self._joined:
            return
        if term != self._term:
            self._term, self._target_index, self._first_seq = term, leader_last_index, seq
            self._is_confirmed = self._has_applied = False
        self._is_confirmed = self._is_confirmed or confirmed_seq >= self._first_seq
        self._maybe_join()

    def applied(self, entry_term: int, index: int) -> None:
        """The entry at `index` was applied; part of the same transaction."""
        if not self._joined and entry_term == self._term and index >= self._target_index:
            self._has_applied = True
            self._maybe_join()

    def _maybe_join(self) -> None:
        if self._is_confirmed and self._has_applied:
            self._joined = True
            self._meta.put_joined()

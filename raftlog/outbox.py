"""What a step wants to send, in the two classes that durability needs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pysyncobj.transport import Transport

from raftlog.errors import LogBroken

Message = dict[str, Any]

IMMEDIATE: Final = frozenset(
    {
        *("append_entries", "pre_vote", "pre_vote_answer", "timeout_now", "propose", "barrier", "barrier_result"),
        *("snapshot_offer", "snapshot_chunk"),
    }
)
"""They promise nothing about this node's disk: entries are counted by their receiver's acknowledgement only, a
barrier's index is committed on a majority already, a copy is read from what is on the disk, and pre-votes bind
nobody."""
HELD: Final = frozenset({"next_node_idx", "request_vote", "response_vote", "result", "snapshot_answer"})
"""They promise that something is on this node's disk: they leave after the tick's commit."""


class Outgoing(NamedTuple):
    """Send `message` to `peer` over its current connection, in the order of the list; drop it if there is none."""

    peer: str
    message: Message


class Outbox(Transport):  # type: ignore[misc]  # the library is untyped
    """The library's transport: it only collects. Sending can therefore not fail, close a connection or call back in the
    middle of the library's loops; and no utility verb is ever registered, so none answers."""

    def __init__(self) -> None:
        super().__init__(None, None, ())
        self.immediate: list[Outgoing] = []
        self.held: list[Outgoing] = []
        self.by_transfer = False
        """Whether the votes asked for now are asked for at the leader's own wish."""

    def send(self, node: Any, message: Message) -> bool:
        if message["type"] == "request_vote":
            message = message | {"transfer": self.by_transfer}
        self.put(node.id, message)
        return True

    def put(self, peer: str, message: Message) -> None:
        kind = message["type"]
        if kind in HELD:
            self.held.append(Outgoing(peer, message))
        elif kind in IMMEDIATE:
            self.immediate.append(Outgoing(peer, message))
        else:
            raise LogBroken(f"a message of type {kind!r} is in neither class")

    def take(self) -> tuple[list[Outgoing], list[Outgoing]]:
        """(immediate, held), and begin anew."""
        taken = self.immediate, self.held
        self.immediate, self.held = [], []
        return taken

    def setOnUtilityMessageCallback(self, message: str, callback: Any) -> None:  # noqa: N802
        """Nothing: status, add, remove, set_version and transfer are not offered."""

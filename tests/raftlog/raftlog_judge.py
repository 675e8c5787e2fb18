"""What a simulated cluster must do, judged as it happens."""

from __future__ import annotations

from raftlog.interface import Proposal
from raftlog.proposals import Name, name_of


class Judge:
    """The history that all nodes must agree on."""

    def __init__(self) -> None:
        self.history: dict[int, tuple[Name | None, bytes, bool]] = {}
        self.index_of: dict[Name, int] = {}
        self.replies_of: dict[Name, list[bytes]] = {}
        self.leaders: dict[int, str] = {}
        self.acknowledged: set[Name] = set()
        self.acknowledged_index = 0
        self.commands = 0

    def applied(self, node: str, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        fact = (None if proposal is None else name_of(proposal), digest, repeat)
        if index in self.history:
            assert self.history[index] == fact, f"{node} applied {fact} at {index}, another node {self.history[index]}"
            return
        self.history[index] = fact
        if proposal is not None and not repeat:
            self.took_effect(index, proposal)

    def took_effect(self, index: int, proposal: Proposal) -> None:
        name = name_of(proposal)
        assert name not in self.index_of, f"{name} took effect twice, at {self.index_of[name]} and {index}"
        first, self.commands = self.commands + 1, self.commands + len(proposal.commands)
        self.index_of[name] = index
        self.replies_of[name] = [b"%d" % number for number in range(first, self.commands + 1)]

    def led(self, node: str, term: int) -> None:
        assert self.leaders.setdefault(term, node) == node, f"two leaders in term {term}"

    def acknowledge(self, name: Name, replies: list[bytes]) -> None:
        assert name not in self.acknowledged, f"two results for {name}"
        assert self.replies_of.get(name) == replies, f"{name} got {replies}, not {self.replies_of.get(name)}"
        self.acknowledged.add(name)
        self.acknowledged_index = max(self.acknowledged_index, self.index_of[name])

"""Who starts processes and containers: the names by which they are found again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """One start of one node of one cluster."""

    cluster: str
    node: str
    incarnation: str
    """One start of the node, told apart from those before."""

    @property
    def labels(self) -> dict[str, str]:
        """What all containers of the node have, whichever start made them."""
        return {"horae.cluster": self.cluster, "horae.node": self.node}

    @property
    def prefix(self) -> str:
        """What the marks of all processes of the node begin with."""
        return f"{self.cluster}/{self.node}/"

    @property
    def mark(self) -> str:
        """What the processes of this start are marked with."""
        return f"{self.prefix}{self.incarnation}"

"""Where a read stood. Users take these from interface.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Consistency = Literal["linearizable", "local"]
LIST_LIMIT_DEFAULT = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """Where a read stood: its applied index, and how stale it may be (local reads; 0 for linearizable ones)."""

    applied_index: int
    stale_s: float

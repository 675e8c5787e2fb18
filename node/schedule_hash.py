"""Values that are a job's own: drawn from its id, the same on every node, in every version, for ever."""

from __future__ import annotations

import math
from hashlib import blake2b

from node.schedule_errors import InvalidSchedule
from node.schedule_fields import FieldKind, Hashed
from node.schedule_pattern import Draw

JITTER_S_MAX = 86_400.0


def draw_for(job_id: str) -> Draw:
    """Chooses a slot for each field from bits of its own, so that every combination of slots can be met."""

    def draw(kind: FieldKind, item: Hashed) -> int:
        return item.first + _hash(job_id, kind.name) % (item.start_last - item.first + 1)

    return draw


def stable_jitter_ms(job_id: str, jitter_s: float) -> int:
    """How long after its tick this job's runs start, in milliseconds: 0 <= x <= jitter_s, always the same for a job.

    Raises InvalidSchedule when jitter_s is not between 0 and JITTER_S_MAX."""
    if not (math.isfinite(jitter_s) and 0 <= jitter_s <= JITTER_S_MAX):
        reason = f"{jitter_s} s is not between 0 and {JITTER_S_MAX:.0f} s"
        raise InvalidSchedule(field="jitter_s", reason=reason, remedy="60")
    return _hash(job_id, "jitter") % (math.floor(jitter_s * 1000) + 1)


def _hash(job_id: str, purpose: str) -> int:
    digest = blake2b(job_id.encode("utf-8", "surrogatepass"), digest_size=8, person=purpose.encode("ascii"))
    return int.from_bytes(digest.digest(), "big")

"""The circumstances of one simulated run, drawn from its seed, so that seeds differ in kind and not only in order."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.check_lateness import RECOVERED_S

HEAL_S = 45.0
"""From the healing to the end if it does not settle before: longer than all attempts of a run can take (SETTLED_S)."""
CALM_S = RECOVERED_S + 6.0
"""From the healing to the end at least: a while of healthy ticks after what the faults had held up."""
LONG_CALM = 0.1
"""The part of the seeds that stay to see what comes late: for HEAL_S."""
EPOCHS_MS = (
    1_774_745_970_000,  # 2026-03-29 00:59:30 UTC, before the clocks of Europe go forward
    1_792_889_970_000,  # 2026-10-25 00:59:30 UTC, before they go back
    1_767_225_570_000,  # 2025-12-31 23:59:30 UTC
    1_835_395_170_000,  # 2028-02-28 23:59:30 UTC
)

CHUNK_BYTES = 128 * 1024
SMALL_CHUNKS_DELAY_S = 0.012
"""On slower links a copy in small chunks takes longer than a log of a few entries reaches back: none would ever end."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Seconds where nothing else is said."""

    nodes: int
    steps: int
    """Faults to be injected."""
    epoch_ms: int
    delay_s: float
    delay_tail_s: float
    commit_s: float
    fault_every_s: float
    away_s: float
    """How long a killed node stays away, on average."""
    jobs: int
    call_every_s: float
    """A client's pause between two requests."""
    slots: int
    ahead: int
    clock_offset_s: float
    """How far the wall clock of a node may be off."""
    drift: float
    failing: float
    """Part of the attempts that fail."""
    faults: tuple[str, ...]
    """The kinds of faults that this run has."""
    log_keep_entries: int
    """Entries that a node keeps of its log: with a few, one that was away needs a copy of the state."""
    snapshot_chunk_bytes: int
    calm_s: float
    """From the healing to the end at least."""
    only: frozenset[int] | None = None
    """Numbers of the faults that are injected, of 1 to `steps`; None: all."""

    @classmethod
    def draw(
        cls, seed: int, *, nodes: int, steps: int, faults: tuple[str, ...], only: frozenset[int] | None = None
    ) -> Plan:
        kinds_dice = random.Random(f"kinds {seed}")
        kinds = tuple(kind for kind in faults if kinds_dice.random() < 0.6) or faults
        dice = random.Random(f"plan {seed}")
        epoch_ms, delay_s = dice.choice(EPOCHS_MS), dice.choice([0.0002, 0.002, 0.02, 0.08])
        delay_tail_s = dice.choice([0.0, 0.01, 0.3])
        is_quick = delay_s + delay_tail_s <= SMALL_CHUNKS_DELAY_S
        return cls(
            nodes=nodes,
            steps=steps,
            epoch_ms=epoch_ms,
            delay_s=delay_s,
            delay_tail_s=delay_tail_s,
            commit_s=dice.choice([0.0005, 0.004, 0.02]),
            fault_every_s=dice.choice([0.5, 2.0, 4.0]),
            away_s=dice.choice([0.3, 2.0, 9.0]),
            jobs=dice.choice([3, 8, 16]),
            call_every_s=dice.choice([0.5, 2.0]),
            slots=dice.choice([8, 32, 256]),
            ahead=dice.choice([0, 20, 50_000]),
            clock_offset_s=dice.choice([0.0, 0.05, 1.5]),
            drift=dice.choice([0.0, 0.005]),
            failing=dice.choice([0.0, 0.1, 0.5]),
            faults=kinds,
            log_keep_entries=dice.choice([10, 50, 1_000_000]),
            snapshot_chunk_bytes=dice.choice([1024 if is_quick else CHUNK_BYTES, CHUNK_BYTES]),
            calm_s=HEAL_S if dice.random() < LONG_CALM else CALM_S,
            only=only,
        )

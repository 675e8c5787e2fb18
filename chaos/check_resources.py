"""What processes hold returns to where it was: nothing leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.history import History, Sample, Violation

AFTER_S = 15.0
"""So long after the healing, what a backlog takes is given back."""
WARM_S = 5.0
"""A process that is just starting holds less than one at work."""
DESCRIPTORS_MORE_MAX = 24
"""Connections of clients that just happen to be there."""
THREADS_MORE_MAX = 8
RSS_BYTES_MORE_MAX = 128 * 1024 * 1024
DISK_BYTES_MAX = 2 * 1024 * 1024 * 1024


def nothing_leaks(history: History) -> Iterator[Violation]:
    """Some time after the healing, each process holds about what the processes of its kind held before the first
    fault."""
    for process in ("node", "log"):
        samples = [sample for sample in history.samples if sample.process == process]
        before, after = _before(history, samples), _after(history, samples)
        if not before:
            continue
        for node in sorted({sample.node for sample in after}):
            own = [sample for sample in after if sample.node == node]
            yield from _leaks(f"the {process} process of {node}", before, own)


def compared(history: History) -> int:
    """How many samples of afterwards there are that can be compared with what was before."""
    return len(_after(history, history.samples)) if _before(history, history.samples) else 0


def _before(history: History, samples: Sequence[Sample]) -> Sequence[Sample]:
    first_fault_s = min((fault.at_s for fault in history.faults), default=history.healed_s)
    return [sample for sample in samples if WARM_S <= sample.at_s <= first_fault_s]


def _after(history: History, samples: Sequence[Sample]) -> Sequence[Sample]:
    return [sample for sample in samples if sample.at_s >= history.healed_s + AFTER_S]


def _leaks(who: str, before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Violation]:
    """The least of what is held afterwards against the most of before: peaks are no leaks."""
    for what, more_max in (
        ("descriptors", DESCRIPTORS_MORE_MAX),
        ("threads", THREADS_MORE_MAX),
        ("rss_bytes", RSS_BYTES_MORE_MAX),
    ):
        most = max(getattr(sample, what) for sample in before)
        least = min(getattr(sample, what) for sample in after)
        if least > most + more_max:
            yield Violation(promise="resources", what=f"{who} holds {least} {what}; before it was at most {most}")
    disk_bytes = min(sample.disk_bytes for sample in after)
    if disk_bytes > DISK_BYTES_MAX:
        yield Violation(promise="resources", what=f"{who} holds {disk_bytes} bytes on its disk")

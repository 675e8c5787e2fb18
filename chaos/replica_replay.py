"""The recorded log, replayed through the state machine in this process: what it did becomes the truth of the history,
and each node's state is compared with the replay's at the same index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.history import Truth
from chaos.replica_log import SharedLog
from chaos.simulated_truth import TruthLog, WitnessedMachine
from raftlog.disk import LmdbDisk
from statemachine.reader import StateReader

COMMIT_EVERY = 500
"""Entries; a transaction's dirty pages are kept in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    truth: list[Truth]
    digests: Mapping[int, str]
    """At the indices that were asked for, as far as the log is whole."""
    last_index: int


def replay(shared: SharedLog, root: Path, marks: set[int]) -> Replayed:
    """Apply all entries up to the first hole, in a directory `root` that is made. `marks`: where digests are taken."""
    disk = LmdbDisk(root, synchronous=False)
    try:
        return _replayed(shared, disk, marks)
    finally:
        disk.close()


def _replayed(shared: SharedLog, disk: LmdbDisk, marks: set[int]) -> Replayed:
    index = 0
    log = TruthLog(lambda: shared.applied_s(index), lambda fact: None)
    machine = WitnessedMachine("replay", disk.environment, log, lambda: None)
    reader = StateReader(disk.environment)
    digests: dict[int, str] = {}
    while (entry := shared.entries.get(index + 1)) is not None:
        index += 1
        machine.apply(disk.transaction, index=index, proposal=entry.proposal)
        if index in marks:
            disk.commit()
            with reader.snapshot() as snapshot:
                digests[index] = snapshot.digest()
        elif index % COMMIT_EVERY == 0:
            disk.commit()
    disk.commit()
    return Replayed(truth=log.truth, digests=digests, last_index=index)

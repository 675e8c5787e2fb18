"""A log process for the tests, and its state machine: a ledger that counts how often each command was applied."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lmdb
from raftlog_applier import ChainApplier

from raftlog.config import RaftConfig
from raftlog.process import LogSettings, database_path, run_log_process
from raftlog.space import SpaceLimits

SECRET = b"the secret of the tests' cluster"
LEDGER = b"ledger:"
NAME_BYTES = 32
"""A command is known by its first bytes."""
POISON = b"poison"
"""A command that breaks the state machine's invariants."""


class _Databases:
    """What ChainApplier needs of a disk."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def database(self, name: str) -> Any:
        return self.environment.open_db(name.encode())


class LedgerApplier(ChainApplier):
    def __init__(self, environment: Any) -> None:
        super().__init__(_Databases(environment))  # type: ignore[arg-type]

    def _apply_command(self, transaction: Any, command: bytes) -> bytes:
        if command == POISON:
            raise AssertionError("a broken invariant")
        key, database = LEDGER + command[:NAME_BYTES], self.database(transaction)
        times = int(transaction.get(key, b"0", db=database)) + 1
        transaction.put(key, b"%d" % times, db=database)
        return super()._apply_command(transaction, command)


class ReadOnlyChain(ChainApplier):
    def __init__(self, environment: Any) -> None:
        super().__init__(_Existing(environment))  # type: ignore[arg-type]


class _Existing(_Databases):
    def database(self, name: str) -> Any:
        return self.environment.open_db(name.encode(), create=False)


class Ledger:
    """The state of one node as a reader of its LMDB sees it."""

    def __init__(self, data_dir: Path) -> None:
        self._environment = lmdb.open(str(database_path(data_dir)), readonly=True, max_dbs=64)
        self._applier = ReadOnlyChain(self._environment)

    def commands(self) -> dict[bytes, int]:
        """How often each command was applied."""
        with self._environment.begin() as transaction:
            cursor = transaction.cursor(db=self._applier.database(transaction))
            cursor.set_range(LEDGER)
            pairs = [*cursor.iternext()]
        return {key.removeprefix(LEDGER): int(times) for key, times in pairs if key.startswith(LEDGER)}

    def standing(self) -> tuple[int, int, bytes]:
        """(applied index, commands applied, digest)."""
        with self._environment.begin() as transaction:
            chain = self._applier
            return chain.applied_index(transaction), chain.count(transaction), chain.digest(transaction)

    def close(self) -> None:
        self._environment.close()


def argv(
    data_dir: Path,
    node: str,
    peers: dict[str, str],
    *,
    secret: bytes = SECRET,
    watches_disk: bool = True,
    raft: Mapping[str, int] | None = None,
) -> list[str]:
    """The command line of a log process; of a learner, if the node is not one of the peers. If it does not watch its
    disk, it writes until a commit fails; `raft` are settings that differ from the usual."""
    told = {
        "data_dir": str(data_dir),
        "node": node,
        "peers": peers,
        "secret": secret.decode(),
        "blind": not watches_disk,
        "raft": dict(raft or {}),
    }
    return [sys.executable, __file__, json.dumps(told)]


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    told = json.loads(sys.argv[1])
    settings = LogSettings(
        data_dir=Path(told["data_dir"]),
        node=told["node"],
        listen=told["peers"].get(told["node"]),
        peers=told["peers"],
        secret=told["secret"].encode(),
        bootstrap=told["node"] in told["peers"],
        raft=RaftConfig(**told.get("raft", {})),
        space=SpaceLimits(share=1e-12) if told.get("blind") else SpaceLimits(),
    )
    return run_log_process(settings, LedgerApplier, monotonic=time.monotonic)


if __name__ == "__main__":
    sys.exit(main())

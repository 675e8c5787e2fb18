"""The only door to the library's insides: what its module reaches for, and the private names that raftlog relies on.

The library reads clock, random numbers, poller, journal and serializer from its module's globals. They are replaced
here by ones that ask the node at work (`Seams`, entered around every call into the library), so that nodes with clocks
of their own can live in one process. What must never happen (pickle, sleeping) raises.
"""

from __future__ import annotations

import logging
import random as random_module
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, Final, NoReturn

import pysyncobj.node
import pysyncobj.version
from pysyncobj import syncobj

from raftlog.config import RaftConfig
from raftlog.errors import LogBroken, LogRefused

PINNED_VERSION: Final = "0.3.17"
REGULAR: Final = b"\x00"
NO_OP: Final = b"\x01"
"""The type bytes that a log entry may begin with; the library's others change members or code, by pickle."""

_P: Final = "_SyncObj"
OVERRIDDEN: Final = {
    f"{_P}__onMessageReceived": "__init__",
    f"{_P}__connectedToAnyone": "_onTick",
    f"{_P}__applyLogEntries": "_onTick",
    f"{_P}__onBecomeLeader": "_onTick",
    f"{_P}__sendAppendEntries": "_onTick",
    f"{_P}__tryLogCompaction": "_onTick",
    "_checkCommandsToApply": "_onTick",
    f"{_P}__setState": f"{_P}__onMessageReceived",
    f"{_P}__sendNextNodeIdx": f"{_P}__onMessageReceived",
}
"""Methods that raftlog replaces, and a caller of each: an override that nobody calls would guard nothing."""

CALLED: Final = (
    f"{_P}__setCurrentTerm",
    f"{_P}__generateRaftTimeout",
    "_onTick",
    "_isLeader",
    "_getLeader",
    "_getTerm",
)
ATTRIBUTES: Final = (
    f"{_P}__connectedNodes",
    f"{_P}__lastResponseTime",
    f"{_P}__newAppendEntriesTime",
    f"{_P}__noopIDx",
    f"{_P}__raftCommitIndex",
    f"{_P}__raftElectionDeadline",
    f"{_P}__raftLastApplied",
    f"{_P}__raftLeader",
    f"{_P}__raftMatchIndex",
    f"{_P}__raftNextIndex",
    f"{_P}__raftState",
)
SEAMS: Final = ("monotonicTime", "random", "time", "createPoller", "createJournal", "Serializer", "pickle", "logger")


def verify_library() -> None:
    """Raises LogRefused, naming what is missing, unless the library is the pinned version with every name in place."""
    if pysyncobj.version.VERSION != PINNED_VERSION:
        raise LogRefused(f"pysyncobj {PINNED_VERSION} is required, {pysyncobj.version.VERSION} is installed")
    missing = [*_missing_methods(), *_missing_attributes(), *_missing_seams()]
    if missing:
        raise LogRefused(f"pysyncobj {PINNED_VERSION} is not what it should be; missing: {', '.join(missing)}")


def _missing_methods() -> list[str]:
    missing = [name for name in (*OVERRIDDEN, *CALLED) if not callable(getattr(syncobj.SyncObj, name, None))]
    for name, caller in OVERRIDDEN.items():
        if name not in _names_in(getattr(syncobj.SyncObj, caller, None)):
            missing.append(f"the call of {name} in {caller}")
    return missing


def _missing_attributes() -> list[str]:
    made = _names_in(syncobj.SyncObj.__init__) | _names_in(getattr(syncobj.SyncObj, f"{_P}__onBecomeLeader", None))
    return [name for name in ATTRIBUTES if name not in made]


def _missing_seams() -> list[str]:
    return [f"module name {name}" for name in SEAMS if not hasattr(syncobj, name)]


def _names_in(function: Any) -> frozenset[str]:
    code: CodeType | None = getattr(function, "__code__", None)
    return frozenset(code.co_names) if code else frozenset()


class PeerNode(pysyncobj.node.Node):  # type: ignore[misc]  # the library is untyped
    """A member, by id. Its hash is the same in every process: the library's sets iterate in a repeatable order."""

    def __init__(self, node_id: str) -> None:
        super().__init__(node_id)
        self._hash = int.from_bytes(node_id.encode(), "big") % (2**61 - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PeerNode) and bool(self.id == other.id)

    def __hash__(self) -> int:
        return self._hash


def library_settings(config: RaftConfig) -> Any:
    return syncobj.SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=True,
        appendEntriesPeriod=config.heartbeat_s,
        raftMinTimeout=config.election_min_s,
        raftMaxTimeout=config.election_max_s,
        leaderFallbackTimeout=config.leader_fallback_s,
        connectionTimeout=config.connection_timeout_s,
        appendEntriesBatchSizeBytes=config.append_batch_bytes,
        commandsQueueSize=0,
        dynamicMembershipChange=False,
        fullDumpFile=None,
        journalFile=None,
        useFork=False,
        password=None,
    )


class Seams:
    """What the library gets from one node. `with seams:` around every call into the library; calls do not nest."""

    def __init__(self, *, clock: Callable[[], float], random: random_module.Random, journal: Any) -> None:
        self.clock = clock
        self.random = random
        self.journal = journal

    def __enter__(self) -> None:
        global _at_work
        if _at_work is not None:
            raise LogBroken("a node was called from inside a node's step")
        _at_work = self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _at_work
        _at_work = None


_at_work: Seams | None = None


def _current() -> Seams:
    if _at_work is None:
        raise LogBroken("the library was called without a node at work")
    return _at_work


class _Random:
    def random(self) -> float:
        return _current().random.random()


class _Forbidden:
    """Stands for a module that the library must not use here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> NoReturn:
        raise LogBroken(f"the library reached for {self._name}.{attribute}")


class _NoPoller:
    def poll(self, timeout: float) -> None:
        """Nothing: the driver waits, not the library."""


class _NoSerializer:
    """There are no dumps: the state is on the disk beside the log."""

    def __init__(self, *_: Any) -> None:
        pass


def _install() -> None:
    syncobj.monotonicTime = lambda: _current().clock()
    syncobj.random = _Random()
    syncobj.time = _Forbidden("time")
    syncobj.pickle = _Forbidden("pickle")
    syncobj.createPoller = lambda kind: _NoPoller()
    syncobj.createJournal = lambda path: _current().journal
    syncobj.Serializer = _NoSerializer
    # Its one message on this path warns of a truncation that the journal does not do; what matters is raised here.
    syncobj.logger = logging.getLogger("raftlog.pysyncobj")
    syncobj.logger.disabled = True


_install()

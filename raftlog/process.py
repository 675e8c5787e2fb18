"""The log process from its start to its end: everything of raftlog put together around one loop."""

from __future__ import annotations

import ctypes
import fcntl
import logging
import os
import random
import secrets
import selectors
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lmdb

from raftlog.addresses import parse_address
from raftlog.auth import Credentials, cluster_id_of
from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.driver import Driver
from raftlog.errors import LogDamaged, LogRefused
from raftlog.interface import Applier
from raftlog.local_protocol import socket_path
from raftlog.node import RaftNode
from raftlog.peers import PeerInput, Peers
from raftlog.server import LogServer
from raftlog.space import DiskGauge, SpaceLimits, SpaceWatch
from raftlog.storage_faults import storage_fault

logger = logging.getLogger(__name__)

DATABASE_NAME: Final = "db"
"""The LMDB directory within the data directory."""
LOCK_NAME: Final = "lock"
STDOUT: Final = 1
READY: Final = b"ready"
REFUSED: Final = b"refused: "
"""What the parent reads on the child's standard output: one line, the first of these or the second with a reason."""

EXIT_DONE: Final = 0
EXIT_REFUSED: Final = 3
"""It did not start; the reason is in the log and on standard output. Starting it again will not help by itself."""
EXIT_BROKEN: Final = 70
"""An error in the loop: the tick was not committed. Starting again goes on from the last commit."""
EXIT_STORAGE: Final = 74
"""The disk is full, broken or damaged: the tick was not committed. Starting again helps once that is mended."""

ApplierFactory = Callable[[Any], Applier]
"""Makes the state machine on the lmdb.Environment; called once, before any transaction is open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSettings:
    """What a log process must be told. `peers` maps the members' ids to their raft addresses and includes this node;
    without `listen` it is a learner, which is no member and listens for nobody."""

    data_dir: Path
    node: str
    listen: str | None
    peers: Mapping[str, str]
    secret: bytes = field(repr=False)
    bootstrap: bool = False
    raft: RaftConfig = field(default_factory=RaftConfig)
    space: SpaceLimits = field(default_factory=SpaceLimits)

    @property
    def identity(self) -> Identity:
        return Identity(
            node=self.node,
            members=tuple(sorted(self.peers)),
            cluster_id=cluster_id_of(self.secret),
            bootstrap=self.bootstrap,
            learner=self.listen is None,
        )


def database_path(data_dir: Path) -> Path:
    """The LMDB directory; readers open it too."""
    return data_dir / DATABASE_NAME


def run_log_process(settings: LogSettings, applier_factory: ApplierFactory, *, monotonic: Callable[[], float]) -> int:
    """Be the log process of a node until its node process goes away; returns the exit code.

    Meant for a child process of its own (`child.start_log_process` makes one): it takes over the signals and standard
    output, and dies with its parent. `monotonic` is a clock in seconds. Logging must have been set up."""
    _leave_signals_to_the_parent()
    _die_with_the_parent()
    try:
        with ExitStack() as stack:
            try:
                driver = _started(settings, applier_factory, monotonic, stack)
            except (LogRefused, LogDamaged, ValueError, OSError, lmdb.Error) as error:
                return _refuse(storage_fault(error, database_path(settings.data_dir)) or str(error))
            _tell_parent(READY)
            logger.info("the log process of %s ends: %s", settings.node, driver.run())
            return EXIT_DONE
    except Exception as error:
        return _broken(settings, error)


def _started(
    settings: LogSettings, applier_factory: ApplierFactory, monotonic: Callable[[], float], stack: ExitStack
) -> Driver:
    """Everything opened, in the order in which it must be closed backwards."""
    selector = stack.enter_context(selectors.DefaultSelector())
    stack.enter_context(data_dir_locked(settings.data_dir))
    disk = LmdbDisk(database_path(settings.data_dir))
    stack.callback(disk.close)
    node = RaftNode(
        identity=settings.identity,
        config=settings.raft,
        disk=disk,
        applier=applier_factory(disk.environment),
        clock=monotonic,
        random=random.Random(),
    )
    stack.callback(node.close)
    gauge = DiskGauge(disk.environment, clock=monotonic, limits=settings.space)
    space = SpaceWatch(node, room=gauge, clock=monotonic, limits=settings.space)
    peers = _peers(settings, space, selector, monotonic)
    server = LogServer(socket_path(settings.data_dir), node=space, selector=selector, clock=monotonic)
    stack.callback(peers.close)
    stack.callback(server.close)
    return Driver(node=node, peers=peers, server=server, space=space, selector=selector, clock=monotonic)


def _peers(
    settings: LogSettings, node: PeerInput, selector: selectors.BaseSelector, monotonic: Callable[[], float]
) -> Peers:
    listen = None if settings.listen is None else parse_address(settings.listen)
    try:
        return Peers(
            credentials=Credentials(
                node=settings.node, cluster_id=settings.identity.cluster_id, secret=settings.secret
            ),
            listen=listen,
            addresses={peer: parse_address(address) for peer, address in settings.peers.items()},
            node=node,
            selector=selector,
            clock=monotonic,
            random=random.random,
            nonce=secrets.token_bytes,
            timeout_s=settings.raft.connection_timeout_s,
        )
    except OSError as error:
        raise LogRefused(f"cannot listen for the other nodes on {listen}: {error.strerror}") from error


@contextmanager
def data_dir_locked(data_dir: Path) -> Iterator[None]:
    """The data directory, made if it is missing, for this process alone (trap 11). Raises LogRefused if it is in use,
    OSError if it cannot be written. The lock goes with the process, however it ends."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            raise LogRefused(f"the data directory {data_dir} is in use by process {holder}") from None
        holder_line = b"%d\n" % os.getpid()
        os.pwrite(descriptor, holder_line, 0)  # over the former one: on a full disk there is no room for it elsewhere
        os.ftruncate(descriptor, len(holder_line))
        yield
    finally:
        os.close(descriptor)


def _broken(settings: LogSettings, error: Exception) -> int:
    """The end by an error in the loop: its line, and the exit code."""
    fault = storage_fault(error, database_path(settings.data_dir))
    if fault is not None:
        logger.critical("the log process of %s ends: %s", settings.node, fault)
        return EXIT_STORAGE
    logger.critical("the log process of %s is broken; its last tick is not committed", settings.node, exc_info=error)
    return EXIT_BROKEN


def _refuse(reason: str) -> int:
    logger.critical("the log process does not start: %s", reason)
    _tell_parent(REFUSED + reason.replace("\n", " ").encode())
    return EXIT_REFUSED


def _tell_parent(line: bytes) -> None:
    """Raises BrokenPipeError if there is no parent left to hear it."""
    os.write(STDOUT, line + b"\n")


def _leave_signals_to_the_parent() -> None:
    """Ctrl-C and a closed terminal reach the whole process group, but the order of the end is the node process'
    business: it still needs the log to hand over and to give claims back. Its socket closing is our signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _die_with_the_parent() -> None:
    """Where the system offers it (Linux): no log process outlives its node process, not even a stopped one."""
    set_parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    except (OSError, AttributeError):
        logger.debug("no parent-death signal here; the closing socket will do")

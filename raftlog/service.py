"""What a log process answers its node process, whatever carries the frames: a Unix socket (server.py), or the pipe of a
simulator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from raftlog import local_protocol as local
from raftlog.errors import CommandTooLarge, DiskFull, LogOverloaded
from raftlog.interface import LogStatus, Proposal, Role
from raftlog.ready import Ready
from raftlog.wire import WireError, pack

logger = logging.getLogger(__name__)

STATUS_PERIOD_S: Final = 1.0
"""How old an index in the client's status may be; changes of role, leader, term and quorum are told at once."""

CLIENT_SILENCE_S: Final = 3.0
"""A node process asks for something every second. If a leader's has been silent for so long it hangs, and what it does
for the whole cluster (ending sessions, moving buckets) nobody does: another node is to lead."""

SHAPES: Final[dict[str, tuple[type, ...]]] = {
    local.HELLO: (int,),
    local.PROPOSE: (int, int, list),
    local.CANCEL: (int,),
    local.BARRIER: (int,),
    local.TRANSFER: (str,),
    local.SUBSCRIBE: (str,),
}


class LogNode(Protocol):
    """What the local client asks of the Raft node."""

    @property
    def incarnation(self) -> int: ...

    @property
    def status(self) -> LogStatus: ...

    def propose(self, proposal: Proposal) -> None: ...

    def cancel(self, *, incarnation: int, seq: int) -> None: ...

    def barrier(self, barrier_id: int) -> None: ...

    def transfer(self, peer: str | None = None) -> None: ...


class Carrier(Protocol):
    """Carries frames to the client."""

    def write(self, content: bytes) -> None: ...

    def flush(self) -> None: ...


class LogService:
    """Serves one client: takes its frames in (`frame_received`) and hands out what a step gave (`deliver`)."""

    def __init__(self, *, node: LogNode, clock: Callable[[], float]) -> None:
        self._node = node
        self._clock = clock
        self._carrier: Carrier | None = None
        self._greeted = False
        self._topics: set[str] = set()
        self._status = node.status
        self._status_sent_s = float("-inf")
        self._heard_s = float("-inf")
        self._led = node.status.role is Role.LEADER

    def attach(self, carrier: Carrier) -> None:
        """The client has come; there is one only."""
        self._carrier = carrier

    def deliver(self, ready: Ready) -> None:
        """Hand out what is committed: the results, barriers, events and status of a step."""
        if self._carrier is None or not self._greeted:
            return
        for applied_index, topic, bodies in ready.events:
            if topic in self._topics:
                self._send(local.EVENTS, applied_index, topic, list(bodies))
        for incarnation, seq, replies in ready.results:
            if incarnation == self._node.incarnation:
                self._send(local.REPLY, seq, list(replies))
        for barrier_id, read_index in ready.barriers:
            self._send(local.BARRIER, barrier_id, read_index)
        self._tell_status(ready.status, at_once=ready.status_changed)
        self._maybe_hand_over(ready.status)
        self._carrier.flush()

    def _maybe_hand_over(self, status: LogStatus) -> None:
        """A follower's silent client harms nobody: its session ends. A leader's keeps everybody's from ending. Before
        there was a leader it may have waited for an answer, with nothing else to ask for."""
        if status.role is Role.LEADER and not self._led:
            self._heard_s = self._clock()
        self._led = status.role is Role.LEADER
        if self._led and self._clock() - self._heard_s >= CLIENT_SILENCE_S:
            logger.warning("the node process has asked for nothing in %g s; another node is to lead", CLIENT_SILENCE_S)
            self._heard_s = self._clock()  # if nobody can take over: again after the same time
            self._node.transfer(None)

    def _tell_status(self, status: LogStatus, *, at_once: bool) -> None:
        sampled = self._clock() - self._status_sent_s >= STATUS_PERIOD_S and status != self._status
        if at_once or sampled:
            self._status, self._status_sent_s = status, self._clock()
            self._send(local.STATUS, local.packable(status))

    def _send(self, *message: Any) -> None:
        if self._carrier is not None:
            self._carrier.write(pack(message))

    def frame_received(self, content: bytes) -> None:
        kind, fields = local.parse(content, SHAPES)
        if (kind == local.HELLO) == self._greeted:
            raise WireError("a local client says hello once, and first")
        self._heard_s = self._clock()
        _HANDLERS[kind](self, *fields)

    def _hello(self, version: int) -> None:
        if version != local.VERSION:
            raise WireError(f"local protocol {version}; the log process speaks {local.VERSION}")
        self._greeted = True
        self._status, self._status_sent_s = self._node.status, self._clock()
        self._send(local.HELLO, local.VERSION, self._node.incarnation, local.packable(self._status))
        if self._carrier is not None:
            self._carrier.flush()

    def _propose(self, seq: int, acknowledged: int, commands: list[bytes]) -> None:
        if not all(type(command) is bytes for command in commands):
            raise WireError("a local propose message with commands that are not bytes")
        proposal = Proposal(
            node=self._status.node,
            incarnation=self._node.incarnation,
            seq=seq,
            acknowledged=acknowledged,
            commands=commands,
        )
        try:
            self._node.propose(proposal)
        except (CommandTooLarge, DiskFull, LogOverloaded) as error:
            self._send(local.REFUSED, seq, type(error).__name__, str(error))

    def _cancel(self, seq: int) -> None:
        self._node.cancel(incarnation=self._node.incarnation, seq=seq)

    def _barrier(self, barrier_id: int) -> None:
        try:
            self._node.barrier(barrier_id)
        except LogOverloaded:
            self._send(local.NO_BARRIER, barrier_id)

    def _transfer(self, to: str) -> None:
        self._node.transfer(to or None)

    def _subscribe(self, topic: str) -> None:
        self._topics.add(topic)


_HANDLERS: Final[dict[str, Callable[..., None]]] = {
    local.HELLO: LogService._hello,
    local.PROPOSE: LogService._propose,
    local.CANCEL: LogService._cancel,
    local.BARRIER: LogService._barrier,
    local.TRANSFER: LogService._transfer,
    local.SUBSCRIBE: LogService._subscribe,
}

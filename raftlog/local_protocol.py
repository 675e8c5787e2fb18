"""What the node process and its log process say to each other over the Unix socket: msgpack lists, the kind first.

    node process                                   log process
    hello, version                        ─▶
                                          ◀─       hello, version, incarnation, status
    propose, seq, acknowledged, commands  ─▶
                                          ◀─       reply, seq, replies   |   refused, seq, error name, reason
    cancel, seq                           ─▶       (no reply is wanted any more)
    barrier, id                           ─▶
                                          ◀─       barrier, id, index    |   no_barrier, id
    transfer, node id or ""               ─▶       (the leadership; the status tells the end)
    subscribe, topic                      ─▶
                                          ◀─       events, applied index, topic, bodies
                                          ◀─       status, status

Either side closing its end is the end of both processes' work together; there is no reconnect.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from raftlog.interface import LogStatus, Role
from raftlog.wire import WireError, unpack

VERSION: Final = 1
SOCKET_NAME: Final = "log.sock"
"""In the data directory, readable and writable by its owner only."""

HELLO: Final = "hello"
PROPOSE: Final = "propose"
REPLY: Final = "reply"
REFUSED: Final = "refused"
CANCEL: Final = "cancel"
BARRIER: Final = "barrier"
NO_BARRIER: Final = "no_barrier"
TRANSFER: Final = "transfer"
SUBSCRIBE: Final = "subscribe"
EVENTS: Final = "events"
STATUS: Final = "status"


def socket_path(data_dir: Path) -> Path:
    return data_dir / SOCKET_NAME


def parse(content: bytes, shapes: dict[str, tuple[type, ...]]) -> tuple[str, list[Any]]:
    """Kind and fields of a message. Raises WireError if it is not one of `shapes`."""
    message = unpack(content)
    if type(message) is not list or not message or type(message[0]) is not str:
        raise WireError("a local message is a list that begins with its kind")
    kind, *fields = message
    shape = shapes.get(kind)
    if shape is None or len(fields) != len(shape):
        raise WireError(f"unknown local message {kind[:32]!r}")
    if any(type(value) is not expected for value, expected in zip(fields, shape, strict=True)):
        raise WireError(f"a local {kind} message with wrong fields")
    return kind, fields


def packable(status: LogStatus) -> dict[str, Any]:
    return {**asdict(status), "role": status.role.value}


def status_from(content: dict[str, Any]) -> LogStatus:
    tuples = {name: tuple(content[name]) for name in ("members", "low_disks")}
    return LogStatus(**{**content, "role": Role(content["role"]), **tuples})

"""The content of a log entry: one proposer's commands and the name under which they may be repeated.

msgpack [version, node, incarnation, seq, acknowledged, [command, ...]]; in the log it stands behind the library's type
byte.
"""

from __future__ import annotations

from typing import Any

import msgpack

from raftlog.interface import Proposal

ENVELOPE_VERSION = 1
NUMBER_MAX = 2**63 - 1
"""Of every integer that travels between nodes."""
_FIELDS = 6


class EnvelopeMalformed(ValueError):
    """These bytes are no envelope of a version that this node knows."""


def encode(proposal: Proposal) -> bytes:
    content = [
        ENVELOPE_VERSION,
        proposal.node,
        proposal.incarnation,
        proposal.seq,
        proposal.acknowledged,
        list(proposal.commands),
    ]
    packed: bytes = msgpack.packb(content, use_bin_type=True)
    return packed


def decode(envelope: bytes) -> Proposal:
    """Raises EnvelopeMalformed for everything that `encode` does not make: a proposal is checked in full BEFORE it
    enters the log, because what is in the log must be applicable everywhere."""
    content = _unpacked(envelope)
    if type(content) is not list or len(content) != _FIELDS or content[0] != ENVELOPE_VERSION:
        raise EnvelopeMalformed("not an envelope of this version")
    _, node, incarnation, seq, acknowledged, commands = content
    if type(node) is not str or not all(type(number) is int and 0 <= number <= NUMBER_MAX for number in content[2:5]):
        raise EnvelopeMalformed("a name that is not (node, incarnation, seq)")
    if type(commands) is not list or not all(type(command) is bytes for command in commands):
        raise EnvelopeMalformed("commands that are not bytes")
    return Proposal(node=node, incarnation=incarnation, seq=seq, acknowledged=acknowledged, commands=commands)


def _unpacked(envelope: bytes) -> Any:
    try:
        return msgpack.unpackb(envelope, raw=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise EnvelopeMalformed(f"not msgpack: {type(error).__name__}") from error

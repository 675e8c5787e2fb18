"""What stands between a peer's message and the library: pure judgements, each against one way of losing data.

Names such as S2 are those of the list in DESIGN.md; each has a test that fails without its guard.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from raftlog.config import RaftConfig
from raftlog.envelope import NUMBER_MAX, EnvelopeMalformed, decode
from raftlog.errors import MessageRefused
from raftlog.interface import Proposal
from raftlog.pysyncobj_bindings import NO_OP, REGULAR

Message = dict[str, Any]

_NUMBERS: Final[dict[str, tuple[str, ...]]] = {
    "append_entries": ("term", "commit_index", "prevLogIdx", "prevLogTerm", "seq", "last_index", "confirmed_seq"),
    "next_node_idx": ("term", "next_node_idx", "seq"),
    "request_vote": ("term", "last_log_index", "last_log_term"),
    "response_vote": ("term",),
    "pre_vote": ("term", "round", "last_log_index", "last_log_term"),
    "pre_vote_answer": ("term", "round"),
    "timeout_now": ("term",),
    "snapshot_offer": ("term", "snapshot", "index", "index_term"),
    "snapshot_chunk": ("term", "snapshot", "chunk"),
    "snapshot_answer": ("term", "snapshot", "chunk", "next_index"),
    "propose": (),
    "result": ("incarnation", "seq"),
    "barrier": ("id",),
    "barrier_result": ("id", "index"),
}
"""Every message type that is not refused, and its numbers (S16: the library's other verbs are not offered)."""


_OF_LEARNERS: Final = frozenset({"next_node_idx", "snapshot_answer", "propose", "barrier"})
"""What a learner may say: it follows and asks, but neither leads nor votes."""


def check_message(message: Message, config: RaftConfig, *, from_member: bool = True) -> None:
    """Raises MessageRefused for what no node of this version sends, before anything of it is used."""
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in _NUMBERS:
        raise MessageRefused(f"message of type {kind!r}")
    if not from_member and kind not in _OF_LEARNERS:
        raise MessageRefused(f"{kind} from a node that is no member")
    for name in _NUMBERS[kind]:
        number = message.get(name)
        if type(number) is not int or not 0 <= number <= NUMBER_MAX:
            raise MessageRefused(f"{kind} with {name} {number!r}")
    check_content = _CONTENTS.get(kind)
    if check_content is not None:
        check_content(message, config)


def _check_append(message: Message, config: RaftConfig) -> None:
    entries = message.get("entries")
    if not isinstance(entries, list) or message["prevLogTerm"] > message["term"]:
        raise MessageRefused("append_entries without entries, or from the future")
    index, term = message["prevLogIdx"], message["prevLogTerm"]
    for entry in entries:
        index += 1
        if not _is_entry(entry, index, config) or not term <= entry[2] <= message["term"]:
            raise MessageRefused(f"append_entries with a bad entry {index}")
        term = entry[2]


def _is_entry(entry: Any, index: int, config: RaftConfig) -> bool:
    """[payload, index, term]: in sequence, never large enough to be split (S10), of a type applied without pickle."""
    if not isinstance(entry, list | tuple) or len(entry) != 3 or type(entry[2]) is not int:
        return False
    payload = entry[0]
    return entry[1] == index and type(payload) is bytes and is_payload(payload, config)


def is_payload(payload: bytes, config: RaftConfig) -> bool:
    return payload == NO_OP or (payload[:1] == REGULAR and len(payload) <= config.envelope_bytes_max + len(REGULAR))


def _check_answer(message: Message, config: RaftConfig) -> None:
    if not all(type(message.get(name)) is bool for name in ("reset", "success", "joined")):
        raise MessageRefused("next_node_idx without reset, success or joined")
    if message["next_node_idx"] < 1:
        raise MessageRefused("next_node_idx below the first entry")


def _check_vote_request(message: Message, config: RaftConfig) -> None:
    if type(message.get("transfer")) is not bool:
        raise MessageRefused("request_vote without transfer")


def _check_pre_vote_answer(message: Message, config: RaftConfig) -> None:
    if type(message.get("granted")) is not bool:
        raise MessageRefused("pre_vote_answer without granted")


def _check_result(message: Message, config: RaftConfig) -> None:
    replies = message.get("replies")
    if not isinstance(replies, list) or not all(type(reply) is bytes for reply in replies):
        raise MessageRefused("result with replies that are not bytes")


def _check_propose(message: Message, config: RaftConfig) -> None:
    envelope = message.get("envelope")
    if type(envelope) is not bytes or len(envelope) > config.envelope_bytes_max:
        raise MessageRefused("propose without an envelope, or with one over envelope_bytes_max")


def _check_offer(message: Message, config: RaftConfig) -> None:
    if message["index"] < 1 or message["index_term"] > message["term"]:
        raise MessageRefused("snapshot_offer of nothing, or from the future")


def _check_chunk(message: Message, config: RaftConfig) -> None:
    data, digest = message.get("data"), message.get("digest")
    if type(data) is not bytes or len(data) > config.snapshot_chunk_bytes_max:
        raise MessageRefused("snapshot_chunk without data, or with more than snapshot_chunk_bytes_max")
    if type(digest) is not bytes or len(digest) not in (0, COPY_DIGEST_BYTES):
        raise MessageRefused("snapshot_chunk with a digest that is none")


def _check_snapshot_answer(message: Message, config: RaftConfig) -> None:
    if type(message.get("ready")) is not bool:
        raise MessageRefused("snapshot_answer without ready")


_CONTENTS: Final[dict[str, Callable[[Message, RaftConfig], None]]] = {
    "append_entries": _check_append,
    "next_node_idx": _check_answer,
    "request_vote": _check_vote_request,
    "pre_vote_answer": _check_pre_vote_answer,
    "snapshot_offer": _check_offer,
    "snapshot_chunk": _check_chunk,
    "snapshot_answer": _check_snapshot_answer,
    "propose": _check_propose,
    "result": _check_result,
}


def forwarded_proposal(peer: str, envelope: bytes) -> Proposal:
    """The proposal that a peer asks the leader to append: in its own name only, and applicable everywhere."""
    try:
        proposal = decode(envelope)
    except EnvelopeMalformed as malformed:
        raise MessageRefused(f"propose: {malformed}") from malformed
    if proposal.node != peer:
        raise MessageRefused(f"propose in the name of {proposal.node!r}")
    return proposal


def bounded_append(message: Message) -> Message:
    """The part of an append_entries that the library sees.

    It commits up to min(commit_index, its last entry). But only what the message itself covers has been compared with
    the leader's log: behind it may be a tail of an older leader's (S2); and without prevLogIdx nothing is compared at
    all (S1). `serialized` and `transmission`, which lead to pickle, are left behind."""
    bounded: Message = {name: message[name] for name in _LIBRARY_APPEND_FIELDS if name in message}
    if "prevLogIdx" not in message:
        return bounded | {"commit_index": 0}
    verified = message["prevLogIdx"] + len(message["entries"])
    return bounded | {"commit_index": min(message["commit_index"], verified)}


_LIBRARY_APPEND_FIELDS: Final = ("type", "term", "commit_index", "entries", "prevLogIdx", "prevLogTerm")


def is_current_answer(message: Message, term: int) -> bool:
    """An answer counts in the term that it was given in: one to an earlier leadership says nothing here (S6)."""
    return bool(message["term"] == term)


def is_new_reset(message: Message, reset_floor: int) -> bool:
    """Whether this rejection answers something sent after the last rejection was acted upon. One lost message makes a
    rejection for each one behind it; acting on all of them would send the same entries again and again (trap 2)."""
    return bool(message["seq"] > reset_floor)


def next_index_after(success_next: int, before: int) -> int:
    """An acknowledgement is about the past: later entries are under way and are not to be sent again (trap 1)."""
    return max(success_next, before)


COPY_DIGEST_BYTES: Final = 16


def digest_behind(digest: bytes, data: bytes) -> bytes:
    """Of all chunks of a copy up to this one, from the digest of those before it."""
    return blake2b(digest + data, digest_size=COPY_DIGEST_BYTES).digest()


def is_whole_copy(received_digest: bytes, sent_digest: bytes) -> bool:
    """What was received is what was read: anything else is dropped and asked for again, never installed (trap 6)."""
    return received_digest == sent_digest


def is_news(index: int, commit_index: int) -> bool:
    """Whether a copy of the state is newer than what is here: one that is not would take back what was applied
    (S11)."""
    return index > commit_index


def keeps_log(held_term: int | None, term: int) -> bool:
    """Whether the log stays when a copy is installed: it has the very entry that the copy stands at, so what follows it
    may have been acknowledged (S3). `held_term` is of this log's entry at that index, None if it has none."""
    return held_term == term


def next_index_behind_copy(index: int, last_index: int) -> int:
    """What a node that installed a copy asks for next: the entries that it kept behind the copy were not compared with
    the leader's, so they are not acknowledged by it (S4)."""
    return index + 1


def held_back(limit: float, needed_index: float) -> float:
    """How far the log is trimmed: not past what a follower will ask for next. One that gets a copy of the state would
    need another one then, and so for ever (trap 10)."""
    return min(limit, needed_index)


def may_succeed(next_index: int, last_index: int) -> bool:
    """Whether a follower can take the leadership over: it was sent everything. One that is far behind, or gets a copy
    of the state, would keep the leader from appending anything for as long as a handover may take."""
    return next_index > last_index


def is_durable(commit_index: int, durable_index: int) -> bool:
    """A leader counts itself for an entry only once it is on its own disk."""
    return commit_index <= durable_index

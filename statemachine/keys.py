"""The keys of the tables: big-endian numbers and text, so that LMDB's byte order is the order that we read in."""

from __future__ import annotations

import re
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from statemachine.limits import JOB_ID_LENGTH_MAX, NONCE_LENGTH_MAX, TIME_MS_MAX
from statemachine.records import BUCKETS, RunKind

JOB_ID_PATTERN = rf"[0-9A-Za-z_]{{1,{JOB_ID_LENGTH_MAX}}}"
NONCE_PATTERN = rf"[0-9A-Za-z_-]{{1,{NONCE_LENGTH_MAX}}}"
_RUN_ID = re.compile(rf"([0-9a-f]{{12}})-({JOB_ID_PATTERN})(?:-([mb])({NONCE_PATTERN}))?", re.ASCII)
_KIND_OF_LETTER = {"m": RunKind.MANUAL, "b": RunKind.BACKFILL}

U64 = Struct(">Q")
U16 = Struct(">H")
_DUE = Struct(">QH")
_ROW = Struct(">QQ")
_NEVER = 2**64 - 1
SEPARATOR = b"\0"
AFTER_SEPARATOR = b"\x01"

KINDS = ("noop", "http", "container", "command")
"""The kinds of targets, by their codes in a lane. A new one goes to the end; there may be sixteen."""
KIND_MASK, LANE_TAGGED, LANE_SLOW, LANE_AGED = 0x0F, 0x10, 0x40, 0x80
"""Of a lane's second byte: the code of the target's kind; that a digest of tags follows (lanes.py); that the number of
a group of slow targets follows (targets.py); that its runs have waited so long that they stand a class higher
(aging.py)."""
TAGS_BYTES = 8
LANE_END = b"\xff"
"""After a lane: beyond all of its runs. No team's name begins with this byte."""


class RunKey(NamedTuple):
    """What a run id says."""

    due_ms: int
    job_id: str
    kind: RunKind
    nonce: str


def bucket_of(job_id: str) -> int:
    """The bucket that decides who fires the job's ticks (crc32 of the id's bytes, modulo 1024)."""
    return crc32(job_id.encode()) % BUCKETS


def run_id_of(job_id: str, due_ms: int, kind: RunKind = RunKind.SCHEDULED, nonce: str = "") -> str:
    """The run's id, which is its key: sorts by due time, and names a scheduled run by (job, due) alone."""
    assert 0 <= due_ms <= TIME_MS_MAX
    if kind is RunKind.SCHEDULED:
        return f"{due_ms:012x}-{job_id}"
    return f"{due_ms:012x}-{job_id}-{kind.value[0]}{nonce}"


def parse_run_id(text: str) -> RunKey | None:
    """The parts of a run id; None for a text that `run_id_of` cannot have made."""
    match = _RUN_ID.fullmatch(text)
    if match is None:
        return None
    due_ms, job_id, letter, nonce = match.groups()
    if int(due_ms, 16) > TIME_MS_MAX:
        return None
    kind = RunKind.SCHEDULED if letter is None else _KIND_OF_LETTER[letter]
    return RunKey(int(due_ms, 16), job_id, kind, nonce or "")


def due_key(due_ms: int, bucket: int, job_id: str) -> bytes:
    """Of `due`, and of `timers` with a run id in the job id's place."""
    return _DUE.pack(due_ms, bucket) + job_id.encode()


def split_due_key(key: bytes) -> tuple[int, int, str]:
    due_ms, bucket = _DUE.unpack_from(key)
    return due_ms, bucket, key[_DUE.size :].decode()


def row_prefix(job_id: str, *, scheduled: bool) -> bytes:
    """Of `job_runs`. Scheduled ticks and other runs are apart, so that the job's last tick is one seek away."""
    return job_id.encode() + (b"\0s" if scheduled else b"\0x")


def place_of(key: RunKey) -> bytes:
    """Where a run stands among the runs of its job, whatever their kind: the end of its row's key."""
    suffix = "" if key.kind is RunKind.SCHEDULED else key.kind.value[0] + key.nonce
    return U64.pack(key.due_ms) + suffix.encode()


def row_key(key: RunKey) -> bytes:
    return row_prefix(key.job_id, scheduled=key.kind is RunKind.SCHEDULED) + place_of(key)


def tick_row_key(job_id: str, due_ms: int) -> bytes:
    """row_key() of a scheduled run, without the detour: it is made once a tick."""
    return job_id.encode() + b"\0s" + U64.pack(due_ms)


def row_run_id(job_id: str, key: bytes) -> str:
    """The run id that a row of `job_runs` stands for."""
    start = len(job_id.encode()) + 2
    (due_ms,) = U64.unpack_from(key, start)
    suffix = key[start + 8 :].decode()
    return f"{due_ms:012x}-{job_id}-{suffix}" if suffix else f"{due_ms:012x}-{job_id}"


def row_due_ms(key: bytes, prefix: bytes) -> int:
    return int(U64.unpack_from(key, len(prefix))[0])


def pack_row(version: int, next_ms: int | None) -> bytes:
    """The value of a scheduled row: the job version that made it, and the tick after it."""
    return _ROW.pack(version, _NEVER if next_ms is None else next_ms)


def unpack_row(value: bytes) -> tuple[int, int | None]:
    version, next_ms = _ROW.unpack(value)
    return version, None if next_ms == _NEVER else next_ms


def waiting_key(lane: bytes, team: str, release_ms: int, run_id: str) -> bytes:
    """Of `waiting`: lane by lane (lanes.py), then by team, the run that has waited longest first."""
    return lane + team.encode() + SEPARATOR + U64.pack(release_ms) + run_id.encode()


def kind_of_lane(lane: bytes) -> str:
    return KINDS[lane[1] & KIND_MASK]


def lane_length(key: bytes) -> int:
    """How much of a key of `waiting` is its lane."""
    flags = key[1]
    return 2 + (TAGS_BYTES if flags & LANE_TAGGED else 0) + (1 if flags & LANE_SLOW else 0)


def outbox_key(next_ms: int, number: int) -> bytes:
    """Of `outbox`: what is to be sent first comes first."""
    return _ROW.pack(next_ms, number)


def split_waiting_key(key: bytes) -> tuple[bytes, str, int, str]:
    """(lane, team, release_ms, run id)."""
    start = lane_length(key)
    end = key.index(SEPARATOR, start)
    (release_ms,) = U64.unpack_from(key, end + 1)
    return key[:start], key[start:end].decode(), release_ms, key[end + 9 :].decode()


def parked_prefix(job_id: str) -> bytes:
    """Of `parked` and of `active_by_job` (a run id follows there)."""
    return job_id.encode() + SEPARATOR


def parked_key(job_id: str, release_ms: int, run_id: str) -> bytes:
    return parked_prefix(job_id) + U64.pack(release_ms) + run_id.encode()


def session_prefix(node: str, incarnation: int) -> bytes:
    """Of `ended_sessions` (the whole key) and of `claims` (a run id follows)."""
    return node.encode() + SEPARATOR + U64.pack(incarnation)


def split_session_key(key: bytes) -> tuple[str, int]:
    end = key.index(SEPARATOR)
    return key[:end].decode(), int(U64.unpack_from(key, end + 1)[0])


def archive_key(job_id: str, version: int) -> bytes:
    return job_id.encode() + SEPARATOR + U64.pack(version)


def pair_of_backfill(job_id: str, backfill_id: str) -> bytes:
    """Of `job_backfills`."""
    return job_id.encode() + SEPARATOR + backfill_id.encode()


def pair_prefix(text: str) -> bytes:
    """Two texts of any length in one short key: a digest each. Names may be longer than an LMDB key."""
    return blake2b(text.encode(), digest_size=16).digest()


def pair_key(first: str, second: str) -> bytes:
    """Of `job_names` (name, team) and `idempotency` (team, key)."""
    return pair_prefix(first) + pair_prefix(second)


def dead_key(team: str, run_id: str) -> bytes:
    """Of `dead_runs`: a team's in order of due time."""
    return team_prefix(team) + run_id.encode()


def team_prefix(team: str) -> bytes:
    return team.encode() + SEPARATOR

"""The idempotency keys of teams: what a key made is kept for seven days, and answers whoever sends it again."""

from __future__ import annotations

from statemachine.codec import decode_idempotency, encode
from statemachine.keys import U64, pair_key
from statemachine.limits import IDEMPOTENCY_KEPT_MS, IDEMPOTENCY_PRUNE_MAX
from statemachine.repeat_records import IdempotencyEntry
from statemachine.work import Work


def entry_of(work: Work, team: str, key: str | None) -> IdempotencyEntry | None:
    """What the key made, unless that is too long ago; None without a key."""
    if key is None:
        return None
    value = work.transaction.get(pair_key(team, key), db=work.tables.idempotency)
    if value is None:
        return None
    entry = decode_idempotency(value)
    return entry if entry.created_ms + IDEMPOTENCY_KEPT_MS > work.now_ms else None


def remember(work: Work, team: str, key: str | None, entry: IdempotencyEntry) -> None:
    """Keep the key for seven days; later ones remove what is older."""
    if key is None:
        return
    _prune(work, entry.created_ms)
    place = pair_key(team, key)
    before = work.transaction.get(place, db=work.tables.idempotency)
    if before is not None:
        # Outdated, else it had answered. Its row of times must go, or pruning it would take the new entry along.
        time_key = U64.pack(decode_idempotency(before).created_ms) + place
        work.transaction.delete(time_key, db=work.tables.idempotency_times)
    work.transaction.put(place, encode(entry), db=work.tables.idempotency)
    work.transaction.put(U64.pack(entry.created_ms) + place, b"", db=work.tables.idempotency_times)


def _prune(work: Work, now_ms: int) -> None:
    for _ in range(IDEMPOTENCY_PRUNE_MAX):
        cursor = work.transaction.cursor(db=work.tables.idempotency_times)
        if not cursor.first():
            return
        time_key = cursor.key()
        created_ms = U64.unpack_from(time_key)[0]
        if created_ms + IDEMPOTENCY_KEPT_MS > now_ms:
            return
        cursor.delete()
        work.transaction.delete(time_key[U64.size :], db=work.tables.idempotency)

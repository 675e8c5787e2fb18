"""Names for new things: ULIDs, which sort by the time of their making. Clock and random bytes are handed in."""

from __future__ import annotations

from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_LENGTH = 26
RANDOM_BYTES = 10
_RANDOM_MAX = (1 << (RANDOM_BYTES * 8)) - 1


def encode_ulid(time_ms: int, randomness: int) -> str:
    """48 bits of milliseconds and 80 random bits as 26 characters of Crockford's base 32."""
    value = (time_ms << (RANDOM_BYTES * 8)) | randomness
    return "".join(ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


class UlidSource:
    """Makes ULIDs that rise strictly within this process, even when the wall clock stands or steps back: LMDB then
    appends in order what is created in order."""

    def __init__(self, *, wall_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._wall_ms = wall_ms
        self._random_bytes = random_bytes
        self._last = (0, 0)

    def __call__(self) -> str:
        now_ms = self._wall_ms()
        last_ms, last_random = self._last
        if now_ms > last_ms:
            self._last = (now_ms, int.from_bytes(self._random_bytes(RANDOM_BYTES), "big"))
        elif last_random < _RANDOM_MAX:
            self._last = (last_ms, last_random + 1)
        else:
            self._last = (last_ms + 1, 0)
        return encode_ulid(*self._last)

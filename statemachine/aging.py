"""Ageing: a run that has waited five minutes counts one class higher, once.

With every renewal the next few lanes are looked at, and what has waited long enough in them moves to a lane of its own
in the class above. So it costs nothing by the run that waits, and a thousand lanes are gone through in a few seconds.
"""

from __future__ import annotations

from statemachine.keys import AFTER_SEPARATOR, LANE_AGED, SEPARATOR, U64, split_waiting_key
from statemachine.lifecycle import move_lane
from statemachine.limits import AGED_AFTER_MS, AGING_LANES_MAX, AGING_RUNS_MAX
from statemachine.tables import AGING_KEY
from statemachine.work import Work


def age(work: Work) -> None:
    """Look at the next lanes, from where the last look stopped."""
    if not work.waiting:
        return
    start: bytes = work.transaction.get(AGING_KEY, db=work.tables.meta) or b""
    place, is_second_half = start, False
    for _ in range(AGING_LANES_MAX):
        key = work.waiting.first_from(place)
        if key is None or (is_second_half and key >= start):
            if is_second_half or not start:
                break
            place, is_second_half = b"", True
            continue
        lane, team, _, _ = split_waiting_key(key)
        prefix = lane + team.encode()
        if lane[0] > 0 and not lane[1] & LANE_AGED:
            _age_team(work, lane, prefix + SEPARATOR)
        place = prefix + AFTER_SEPARATOR
    if place != start:
        work.transaction.put(AGING_KEY, place, db=work.tables.meta)


def _age_team(work: Work, lane: bytes, prefix: bytes) -> None:
    higher = bytes((lane[0] - 1, lane[1] | LANE_AGED)) + lane[2:]
    for _ in range(AGING_RUNS_MAX):
        key = work.waiting.first_from(prefix)
        if key is None or not key.startswith(prefix):
            return
        if U64.unpack_from(key, len(prefix))[0] > work.now_ms - AGED_AFTER_MS:
            return
        run = work.run(key[len(prefix) + U64.size :].decode())
        assert run is not None, "a waiting run must exist"
        move_lane(work, run, higher)

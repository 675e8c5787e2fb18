"""Whose turn it is: deficit round robin among the teams of a class, in which every run costs one.

A team whose turn it is may be handed as many runs as its weight says, then the next one follows. Where the turn stands,
and what is left of it, is part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from heapq import merge

from statemachine.keys import AFTER_SEPARATOR, LANE_END, SEPARATOR, lane_length
from statemachine.waiting import WaitingQueue
from statemachine.work import Turn


def needs_in(waiting: WaitingQueue, class_: bytes) -> list[bytes]:
    """The needs of the runs that wait in a class, found one seek at a time."""
    needs = []
    key = waiting.first_from(class_)
    while key is not None and key.startswith(class_):
        need = key[1 : lane_length(key)]
        needs.append(need)
        key = waiting.first_from(class_ + need + LANE_END)
    return needs


def teams_in_turn(
    waiting: WaitingQueue, class_: bytes, needs: Iterable[bytes], closed: Set[bytes], turn: Turn | None
) -> Iterator[bytes]:
    """The teams that wait in the class, each once, beginning with the one whose turn it is: that of `turn`, if
    something is left of it, else the one after. What comes to be in `closed` is not gone on with."""
    lanes = [class_ + need for need in needs]
    if turn is None:
        yield from _union([_teams_between(waiting, lane, b"", None, closed) for lane in lanes])
        return
    start = turn.team + (SEPARATOR if turn.left else AFTER_SEPARATOR)
    yield from _union([_teams_between(waiting, lane, start, None, closed) for lane in lanes])
    yield from _union([_teams_between(waiting, lane, b"", start, closed) for lane in lanes])


def _teams_between(
    waiting: WaitingQueue, lane: bytes, start: bytes, end: bytes | None, closed: Set[bytes]
) -> Iterator[bytes]:
    key = waiting.first_from(lane + start)
    while key is not None and key.startswith(lane) and (end is None or key < lane + end):
        team = key[len(lane) : key.index(SEPARATOR, len(lane))]
        yield team
        if lane[1:] in closed:
            return
        key = waiting.first_from(lane + team + AFTER_SEPARATOR)


def _union(sequences: list[Iterator[bytes]]) -> Iterator[bytes]:
    if len(sequences) == 1:
        yield from sequences[0]
        return
    last = None
    for team in merge(*sequences):
        if team != last:
            yield team
        last = team

"""Where there is room: what each session that takes claims can still take in one pass of the hand-out."""

from __future__ import annotations

from statemachine.keys import KIND_MASK, KINDS, LANE_SLOW
from statemachine.records import Run
from statemachine.work import Seat, Work


def takes_claims(work: Work, seat: Seat) -> bool:
    """A node whose clock is off would start its runs at the wrong time."""
    return seat.takes_claims and not work.is_off(seat.wall_ms)


class Rooms:
    """For due runs into slots, or for runs ahead of their time. A session may also limit single kinds; kinds that its
    node cannot run it limits to nothing."""

    def __init__(self, work: Work, *, ahead: bool) -> None:
        self._work = work
        self._seats = {node: seat for node, seat in work.seats.items() if takes_claims(work, seat)}
        self._room: dict[str, int] = {}
        self._kind_room: dict[str, dict[str, int]] = {}
        for node, seat in self._seats.items():
            self._room[node] = seat.session.ahead - seat.held_ahead if ahead else seat.session.slots - seat.held_due
            held = seat.kinds_ahead if ahead else seat.kinds_due
            self._kind_room[node] = {kind: most - held.get(kind, 0) for kind, most in seat.session.kind_slots.items()}
        self._free = sum(room for room in self._room.values() if room > 0)
        self._slots = sum(seat.session.slots for seat in self._seats.values())
        self._fitting: dict[bytes, dict[str, str | None]] = {}

    def __bool__(self) -> bool:
        """Whether any session has room for anything."""
        return self._free > 0

    def node_for(self, need: bytes, run: Run) -> str | None:
        """The owner's own session first, else the one with most room; after a failure rather another node. None: no
        session that can run it has room, or its slow target holds its share."""
        if need[0] & LANE_SLOW and not self._work.targets.has_room(need[-1], self._slots):
            return None
        fitting = self._fitting.get(need)
        if fitting is None:
            fitting = self._fitting[need] = self._nodes_fit_for(need, run)
        owner = self._work.owner_of(run.job_id)
        last = run.attempts[-1].node if run.attempts else None
        if owner != last and owner in fitting and self._room_at(owner, fitting[owner]) > 0:
            return owner
        return self._roomiest(fitting, without=last) or self._roomiest(fitting, without=None)

    def take(self, node: str, need: bytes) -> None:
        """A run of this need goes to the node."""
        self._room[node] -= 1
        self._free -= 1
        kind = self._fitting[need][node]
        if kind is not None:
            self._kind_room[node][kind] -= 1

    def _nodes_fit_for(self, need: bytes, run: Run) -> dict[str, str | None]:
        """Sessions that have the run's tags, and the kind of its target where they limit that; whether they have room
        is another question."""
        wanted, kind = run.run_on.items(), KINDS[need[0] & KIND_MASK]
        return {
            node: kind if kind in self._kind_room[node] else None
            for node, seat in self._seats.items()
            if wanted <= seat.session.tags.items()
        }

    def _room_at(self, node: str, kind: str | None) -> int:
        room = self._room[node]
        return room if kind is None else min(room, self._kind_room[node][kind])

    def _roomiest(self, nodes: dict[str, str | None], *, without: str | None) -> str | None:
        best, most = None, 0
        for node, kind in nodes.items():
            room = self._room_at(node, kind)
            if room > most and node != without:
                best, most = node, room
        return best

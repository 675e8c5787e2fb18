"""Where there is room: what each session that takes claims can still take in one pass of the hand-out."""

from __future__ import annotations

from statemachine.keys import KIND_MASK, KINDS
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
        self._fitting: dict[bytes, list[str]] = {}

    def __bool__(self) -> bool:
        """Whether any session has room for anything."""
        return self._free > 0

    def node_for(self, need: bytes, run: Run) -> str | None:
        """The owner's own session first, else the one with most room; after a failure rather another node. None: no
        session that can run it has room."""
        fitting = self._fitting.get(need)
        if fitting is None:
            fitting = self._fitting[need] = self._nodes_fit_for(run)
        kind = KINDS[need[0] & KIND_MASK]
        owner = self._work.owner_of(run.job_id)
        last = run.attempts[-1].node if run.attempts else None
        if owner is not None and owner != last and owner in fitting and self._room_at(owner, kind) > 0:
            return owner
        return self._roomiest(fitting, kind, without=last) or self._roomiest(fitting, kind, without=None)

    def take(self, node: str, need: bytes) -> None:
        """A run of this need goes to the node."""
        self._room[node] -= 1
        self._free -= 1
        kinds, kind = self._kind_room[node], KINDS[need[0] & KIND_MASK]
        if kind in kinds:
            kinds[kind] -= 1

    def _nodes_fit_for(self, run: Run) -> list[str]:
        """Sessions that have the run's tags; whether they have room is another question."""
        wanted = run.run_on.items()
        return [node for node, seat in self._seats.items() if wanted <= seat.session.tags.items()]

    def _room_at(self, node: str, kind: str) -> int:
        room = self._room[node]
        return min(room, self._kind_room[node].get(kind, room))

    def _roomiest(self, nodes: list[str], kind: str, *, without: str | None) -> str | None:
        best, most = None, 0
        for node in nodes:
            room = self._room_at(node, kind)
            if room > most and node != without:
                best, most = node, room
        return best

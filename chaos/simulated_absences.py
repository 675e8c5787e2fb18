"""When which node was not there: read off what is noted while a simulation runs."""

from __future__ import annotations

from dataclasses import replace

from chaos.history import Absence

FOREVER_S = float("inf")


class Absences:
    """Hears every note, and knows those that say that a node goes or comes."""

    def __init__(self) -> None:
        self._ended: list[Absence] = []
        self._down: dict[str, Absence] = {}
        self._paused: list[Absence] = []

    def all(self) -> list[Absence]:
        """Those that have not ended are infinite."""
        absences = [*self._ended, *self._paused, *self._down.values()]
        return sorted(absences, key=lambda absence: (absence.from_s, absence.node))

    def heard(self, at_s: float, kind: object, *facts: object) -> None:
        match kind, facts:
            case "crash", (str(node), *_):
                self._end_pauses(at_s, node)
                self._down[node] = Absence(node=node, from_s=at_s, until_s=FOREVER_S, how="down")
            case "boot", (str(node), *_) if node in self._down:
                self._ended.append(replace(self._down.pop(node), until_s=at_s))
            case "pause", (str(node), "both" | "node" | "log" as process, float(seconds)):
                until_s = at_s + seconds
                absence = Absence(node=node, from_s=at_s, until_s=until_s, how="paused", process=process)
                self._paused.append(absence)
            case "heal", _:
                self._end_pauses(at_s)

    def _end_pauses(self, at_s: float, node: str | None = None) -> None:
        """Of one node, or of all."""
        for absence in [one for one in self._paused if node in (None, one.node)]:
            self._paused.remove(absence)
            self._ended.append(replace(absence, until_s=min(absence.until_s, at_s)))

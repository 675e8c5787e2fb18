"""The timeline: who led, who was away, what was done to whom, how late runs started and what clients were told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from chaos.check_lateness import LATE_P99_S, delays_of
from chaos.history import Absence, Fault, History
from chaos.report_elements import element
from chaos.report_scale import LogScale, Scale, clock, duration, time_ticks
from chaos.report_style import NODE_COLOURS

WIDTH, LEFT, RIGHT = 1000.0, 84.0, 12.0
LANE, GAP = 22.0, 8.0
LATENESS_HEIGHT = 150.0
LATE_LOW_S, LATE_HIGH_S = 0.001, 60.0
LATE_TICKS_S = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)
POINT_S = 0.4
"""A fault that does not last is drawn as long as this many hundredths of the whole."""
POINT_LENGTH = 1.5
ANSWERS = ("ok", "fail", "info")


class Timeline:
    """Draws lane below lane; `_y` is where the next one begins."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._nodes = nodes_of(history)
        self._x = Scale(low=0.0, high=max(history.end_s, 1.0), start=LEFT, end=WIDTH - RIGHT)
        self._y = 6.0
        self._drawn: list[Element] = []

    def svg(self) -> Element:
        self._leaders()
        for node in self._nodes:
            self._node(node)
        self._lane("everybody", [fault for fault in self._history.faults if fault.node not in self._nodes])
        self._requests()
        self._lateness()
        self._axis()
        return element(
            "svg",
            element("title", "What happened when"),
            *self._behind(),
            *self._drawn,
            viewBox=f"0 0 {WIDTH:g} {self._y:g}",
            class_="timeline",
            role="img",
        )

    def _leaders(self) -> None:
        self._label("leader")
        seen = self._history.leaders
        ends_s = [*(one.at_s for one in seen[1:]), self._history.end_s]
        for leader, until_s in zip(seen, ends_s, strict=False):
            if leader.node is not None:
                what = f"{leader.node} led from {clock(leader.at_s)}, term {leader.term}"
                self._band(leader.at_s, until_s, node_class(self._nodes, leader.node), what)
        self._y += LANE + GAP

    def _node(self, node: str) -> None:
        self._lane(node, [fault for fault in self._history.faults if fault.node == node], advance=False)
        for absence in self._history.absences:
            if absence.node == node:
                self._band(absence.from_s, absence.until_s, absence.how, _says(absence), inset=5.0)
        self._y += LANE + GAP

    def _lane(self, label: str, faults: Iterable[Fault], *, advance: bool = True) -> None:
        self._label(label)
        for fault in faults:
            shown_s = self._history.end_s * POINT_S / 100
            until_s = fault.at_s + shown_s if fault.until_s is None else max(fault.until_s, fault.at_s + shown_s)
            self._band(fault.at_s, until_s, "fault", f"{clock(fault.at_s)} {fault.what}")
        if advance:
            self._y += LANE + GAP

    def _requests(self) -> None:
        for answer in ANSWERS:
            self._label({"ok": "answered", "fail": "refused", "info": "unknown"}[answer])
            places = [
                (self._x.at(one.invoked_s), self._y + LANE / 2)
                for one in self._history.operations
                if one.answer == answer
            ]
            self._drawn.append(points(places, f"points {answer}"))
            self._y += LANE + GAP

    def _lateness(self) -> None:
        """In powers of ten, since what matters spans four of them."""
        top = self._y + 26
        y = LogScale(low=LATE_LOW_S, high=LATE_HIGH_S, start=top + LATENESS_HEIGHT, end=top)
        for tick_s in LATE_TICKS_S:
            self._rule(y.at(tick_s), "grid")
            self._drawn.append(element("text", duration(tick_s), x=LEFT - 8, y=y.at(tick_s) + 4, class_="end"))
        self._drawn.append(element("text", "starts, late by", x=4, y=top - 12, class_="strong"))
        self._rule(y.at(LATE_P99_S), "limit")
        for late in (False, True):
            places = [
                (self._x.at(release_s), y.at(delay_s))
                for release_s, delay_s in delays_of(self._history)
                if (delay_s > LATE_P99_S) == late
            ]
            self._drawn.append(points(places, "points late" if late else "points"))
        self._y = top + LATENESS_HEIGHT + GAP

    def _axis(self) -> None:
        for tick_s in time_ticks(self._history.end_s):
            self._drawn.append(element("text", clock(tick_s), x=self._x.at(tick_s), y=self._y + 12, class_="middle"))
        self._y += 20

    def _behind(self) -> Iterator[Element]:
        """Lines through all lanes: times, changes of the leader, the healing."""
        bottom = self._y - 20
        for tick_s in time_ticks(self._history.end_s):
            yield self._upright(tick_s, bottom, "grid")
        for leader in self._history.leaders[1:]:
            if leader.node is not None:
                yield self._upright(leader.at_s, bottom, "change")
        yield self._upright(self._history.healed_s, bottom, "healed")

    def _upright(self, at_s: float, bottom: float, kind: str) -> Element:
        x = self._x.at(at_s)
        return element("line", x1=x, x2=x, y1=0, y2=bottom, class_=kind)

    def _rule(self, y: float, kind: str) -> None:
        self._drawn.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_=kind))

    def _label(self, text: str) -> None:
        lane = element("rect", x=LEFT, y=self._y, width=WIDTH - LEFT - RIGHT, height=LANE, rx=4, class_="lane")
        self._drawn += [lane, element("text", text[:12], x=4, y=self._y + 15, class_="strong")]

    def _band(self, from_s: float, until_s: float, kind: str, title: str, inset: float = 0.0) -> None:
        x, end = self._x.at(from_s), self._x.at(until_s)
        band = element(
            "rect",
            element("title", title),
            x=x,
            y=self._y + inset,
            width=max(round(end - x, 1), 1.0),
            height=LANE - 2 * inset,
            rx=2,
            class_=kind,
        )
        self._drawn.append(band)


def _says(absence: Absence) -> str:
    until = "the end" if absence.until_s == float("inf") else clock(absence.until_s)
    which = "" if absence.process == "both" else f" ({absence.process} process)"
    return f"{absence.node} {absence.how}{which} from {clock(absence.from_s)} to {until}"


def nodes_of(history: History) -> list[str]:
    """Everybody who took part, by name."""
    named = {state.node for state in history.states} | {absence.node for absence in history.absences}
    named |= {leader.node for leader in history.leaders if leader.node is not None}
    return sorted(named | {sample.node for sample in history.samples})


def node_class(nodes: list[str], node: str) -> str:
    return f"node-{nodes.index(node) % NODE_COLOURS}"


def points(places: Iterable[tuple[float, float]], kind: str) -> Element:
    """Many points as one path; those that would lie on each other are one, so that a page stays small."""
    seen = sorted({(round(x), round(y)) for x, y in places})
    return element("path", d="".join(f"M{x} {y}h{POINT_LENGTH}" for x, y in seen), class_=kind)

"""The smaller charts of the report: how late runs were, and what processes held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from xml.etree.ElementTree import Element

from chaos.check_lateness import LATE_P99_S, delays_of
from chaos.history import History, Sample
from chaos.report_elements import element
from chaos.report_scale import Scale, clock, duration, size, time_ticks
from chaos.report_timeline import node_class, nodes_of

WIDTH, HEIGHT = 460.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 10.0, 10.0, 24.0
BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The upper ends of the bars; a last one holds what is more."""
POINTS_MAX = 400
"""Of one line: more would not be seen."""


def lateness_histogram(history: History) -> Element:
    counts = [0] * (len(BOUNDS_S) + 1)
    for _, late_s in delays_of(history):
        counts[bisect_right(BOUNDS_S, late_s)] += 1
    x = Scale(low=0, high=len(counts), start=LEFT, end=WIDTH - RIGHT)
    y = Scale(low=0, high=max(counts) or 1, start=HEIGHT - BOTTOM, end=TOP)
    bars = [
        element(
            "rect",
            element("title", f"{count} starts were up to {_bound(number)} late"),
            x=x.at(number) + 1,
            y=y.at(count),
            width=round(x.at(number + 1) - x.at(number) - 2, 1),
            height=round(y.at(0) - y.at(count), 1),
            class_="bar late" if number >= len(BOUNDS_S) or BOUNDS_S[number] > LATE_P99_S else "bar",
        )
        for number, count in enumerate(counts)
    ]
    labels = [
        element("text", duration(BOUNDS_S[number]), x=x.at(number + 1), y=HEIGHT - 8, class_="middle")
        for number in range(2, len(BOUNDS_S), 3)
    ]
    return _chart("How late", [*_level(y, 0, "0"), *_level(y, max(counts), str(max(counts))), *bars, *labels])


def _bound(number: int) -> str:
    return "any time" if number == len(BOUNDS_S) else duration(BOUNDS_S[number])


def resource_charts(history: History) -> Iterator[tuple[str, Element]]:
    """(what is shown, chart): one for each thing and kind of process, a line a node."""
    for process in ("node", "log"):
        samples = [sample for sample in history.samples if sample.process == process]
        if samples:
            yield f"descriptors of the {process} processes", _lines(history, samples, _descriptors, str)
            yield f"threads of the {process} processes", _lines(history, samples, _threads, str)
            yield f"memory of the {process} processes", _lines(history, samples, _rss_bytes, size)
    if history.samples:
        yield "data directories", _lines(history, history.samples, _disk_bytes, size)


def _descriptors(sample: Sample) -> int:
    return sample.descriptors


def _threads(sample: Sample) -> int:
    return sample.threads


def _rss_bytes(sample: Sample) -> int:
    return sample.rss_bytes


def _disk_bytes(sample: Sample) -> int:
    return sample.disk_bytes


def _lines(
    history: History,
    samples: Sequence[Sample],
    value: Callable[[Sample], int],
    say: Callable[[int], str],
) -> Element:
    nodes, most = nodes_of(history), max(value(sample) for sample in samples)
    x = Scale(low=0, high=max(history.end_s, 1.0), start=LEFT, end=WIDTH - RIGHT)
    y = Scale(low=0, high=most or 1, start=HEIGHT - BOTTOM, end=TOP)
    drawn: list[Element] = [*_level(y, 0, say(0)), *_level(y, most, say(most)), *_level(y, most // 2, say(most // 2))]
    drawn += [
        element("text", clock(tick_s), x=x.at(tick_s), y=HEIGHT - 8, class_="middle")
        for tick_s in time_ticks(history.end_s, ticks_max=6)
    ]
    healed = x.at(history.healed_s)
    drawn.append(element("line", x1=healed, x2=healed, y1=TOP, y2=HEIGHT - BOTTOM, class_="healed"))
    for node in nodes:
        own = [sample for sample in samples if sample.node == node]
        own = own[:: max(len(own) // POINTS_MAX, 1)]
        places = " ".join(f"{x.at(sample.at_s)},{y.at(value(sample))}" for sample in own)
        line = element("polyline", element("title", node), points=places, class_=f"line {node_class(nodes, node)}")
        drawn.append(line)
    return _chart("What processes held", drawn)


def _level(y: Scale, value: float, text: str) -> list[Element]:
    place = y.at(value)
    return [
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="grid"),
        element("text", text, x=LEFT - 8, y=place + 4, class_="end"),
    ]


def _chart(title: str, drawn: list[Element]) -> Element:
    return element("svg", element("title", title), *drawn, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img")

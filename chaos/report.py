"""A history and its verdict as one HTML page that needs nothing else: no script, no font, no request.

`report_of` is a pure function of the history. What it says is what the checkers say (verdict.py); it judges nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from chaos.check_healing import leader_changes
from chaos.check_lateness import LATE_P99_S, Lateness, lateness_parts
from chaos.history import About, History
from chaos.report_charts import lateness_histogram, resource_charts
from chaos.report_elements import Child, chip, element, page_of, table
from chaos.report_scale import clock, duration
from chaos.report_style import STYLE
from chaos.report_timeline import Timeline, node_class, nodes_of
from chaos.verdict import CheckVerdict, PromiseVerdict, Word, has_passed, judge, one_line

VIOLATIONS_SHOWN_MAX = 20
"""Of one check; the count says how many there are."""
CHIPS: dict[Word, str] = {"kept": "kept", "broken": "broken", "not decided": "doubt", "not exercised": ""}


def report_of(history: History) -> str:
    """The page."""
    verdicts = judge(history)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"Horae chaos: {one_line(verdicts)}"),
        element("style", STYLE),
    )
    main = element(
        "main",
        element("h1", "Horae chaos report"),
        _verdict(history, verdicts),
        element("h2", "Timeline"),
        *_timeline(history),
        element("h2", "Promises"),
        element("section", *(_promise(verdict) for verdict in verdicts), class_="card tight"),
        element("h2", "Lateness"),
        *_lateness(history),
        element("h2", "Requests"),
        _requests(history),
        element("h2", "Faults"),
        *_faults(history),
        element("h2", "What processes held"),
        _resources(history),
    )
    return page_of(element("html", head, element("body", main), lang="en"))


def _verdict(history: History, verdicts: Sequence[PromiseVerdict]) -> Element:
    passed = has_passed(verdicts)
    return element(
        "section",
        element("strong", "All promises were kept" if passed else "A promise was not kept"),
        element("p", one_line(verdicts)),
        element("dl", *_origin(history.about), *_facts(history), *_command(history.about)),
        class_="card verdict" if passed else "card verdict failed",
    )


def _facts(history: History) -> Iterator[Element]:
    healed_s = history.healed_s
    yield _fact("faults", f"{len(history.faults)} in {clock(healed_s)}, {clock(history.end_s)} in all")
    yield _fact("requests", f"{len(history.operations)}")
    yield _fact("attempts", f"{len(history.effects)}")
    yield _fact("all knew a leader", _after(history.leader_again_s, healed_s))
    yield _fact("all had caught up", _after(history.caught_up_s, healed_s))
    yield _fact("leaders changed", f"{leader_changes(history)} times after that")


def _origin(about: About | None) -> Iterator[Element]:
    if about is None:
        yield _fact("origin", "not recorded")
        return
    what = "simulated, on virtual time" if about.harness == "simulated" else "real processes"
    yield _fact("cluster", f"{about.nodes} nodes, {what}")
    yield _fact("seed", str(about.seed))
    yield _fact("commit", about.commit or "not known")
    if about.began_ms is not None:
        yield _fact("began", f"{datetime.fromtimestamp(about.began_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC")
    if about.real_s is not None:
        yield _fact("took", duration(about.real_s))


def _command(about: About | None) -> Iterator[Element]:
    if about is not None:
        yield element("div", element("dt", "again"), element("dd", element("code", about.command)), class_="wide")


def _fact(name: str, value: str) -> Element:
    return element("div", element("dt", name), element("dd", value))


def _after(at_s: float | None, healed_s: float) -> str:
    return "never" if at_s is None else f"{duration(at_s - healed_s)} after the healing"


def _promise(verdict: PromiseVerdict) -> Element:
    """What was found is shown at once; what was looked at, to whoever opens it."""
    counts: dict[str, int] = {}
    for check in verdict.checks:
        counts.setdefault(check.noun, check.looked_at)
    summary = element(
        "summary",
        element("span", verdict.promise, class_="name"),
        element(
            "h3", verdict.title, element("small", ", ".join(f"{count:,} {noun}" for noun, count in counts.items()))
        ),
        chip(verdict.word, CHIPS[verdict.word]),
    )
    lines = [line for check in verdict.checks for line in _check_lines(check)]
    is_open = "" if verdict.violations else None
    return element("details", summary, element("ul", *lines), class_="promise", open=is_open)


def _check_lines(check: CheckVerdict) -> Iterator[Element]:
    yield element("li", element("b", f"{check.looked_at:,} {check.noun}"), f": {check.says}")
    for violation in check.violations[:VIOLATIONS_SHOWN_MAX]:
        yield element("li", violation.what, class_="found")
    more = len(check.violations) - VIOLATIONS_SHOWN_MAX
    if more > 0:
        yield element("li", f"and {more:,} more", class_="found")


def _timeline(history: History) -> Iterator[Element]:
    nodes = nodes_of(history)
    named = [("fault", "fault"), ("down", "down"), ("paused", "paused"), ("healed", "everything healed")]
    named += [("point", "a start"), ("late", f"a start more than {duration(LATE_P99_S)} late")]
    keys = [(node_class(nodes, node), f"{node} led") for node in nodes] + named
    yield element("div", *(element("span", element("i", class_=kind), text) for kind, text in keys), class_="legend")
    yield element("div", Timeline(history).svg(), class_="scroll", tabindex="0")


def _lateness(history: History) -> Iterator[Element]:
    parts = lateness_parts(history)
    rows = [
        _lateness_row("all runs", parts.overall),
        _lateness_row("released while things failed", parts.in_faults),
        _lateness_row("released after the recovery", parts.recovered),
    ]
    yield element("p", "From the release of a run to the call of its target; first attempts only.", class_="quiet")
    started = parts.overall.count > 0
    yield table(["", "starts", "p50", "p99", "latest"], rows if started else [], empty="No run was started.")
    if started:
        figure = element("figure", lateness_histogram(history), class_="card")
        yield element("div", figure, class_="charts", style="margin-top:12px")


def _lateness_row(what: str, late: Lateness) -> list[Child]:
    if not late.count:
        return [what, "0", "", "", ""]
    return [what, f"{late.count:,}", duration(late.p50_s), duration(late.p99_s), duration(late.max_s)]


def _requests(history: History) -> Element:
    counts = Counter((one.kind, one.answer) for one in history.operations)
    kinds = sorted({kind for kind, _ in counts})
    rows: list[list[Child]] = [
        [kind, *(f"{counts[kind, answer]:,}" for answer in ("ok", "fail", "info"))] for kind in kinds
    ]
    return table(["request", "answered", "refused", "unknown"], rows, empty="Nobody asked anything.")


def _faults(history: History) -> Iterator[Element]:
    counts = Counter(fault.kind for fault in history.faults)
    if counts:
        yield element("p", ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    rows: list[list[Child]] = [
        [
            clock(fault.at_s),
            fault.what,
            fault.node or "",
            "" if fault.until_s is None else duration(fault.until_s - fault.at_s),
        ]
        for fault in history.faults
    ]
    listed = table(["at", "what", "node", "for"], rows, empty="Nothing was broken on purpose.")
    yield element("details", element("summary", "Each of them"), listed) if rows else listed


def _resources(history: History) -> Element:
    figures = [
        element("figure", element("figcaption", what, class_="quiet"), chart, class_="card")
        for what, chart in resource_charts(history)
    ]
    if not figures:
        return element("p", "No samples: simulated processes hold nothing of their own.", class_="quiet")
    return element("div", *figures, class_="charts")

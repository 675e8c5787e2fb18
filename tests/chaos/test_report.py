"""The page says what the history and the checkers say, is well formed, needs nothing else, and is no way in for text
that somebody else chose."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.history import About, Absence, Fault, History, LeaderSeen, Sample
from chaos.history_file import write_history
from chaos.report import VIOLATIONS_SHOWN_MAX, report_of
from chaos.report_scale import LogScale, Scale, clock, duration, size, time_ticks
from chaos.report_timeline import points
from node.cli import main
from tests.chaos.histories import GOOD, claimed, effect, operation, with_effects, with_truth

VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE = "\"'><script>alert(1)</script>\x00\x1b[31m"
ABOUT = About(
    harness="live", seed=77, nodes=3, commit="abc1234", command="horae chaos live --seed 77", began_ms=0, real_s=300.0
)
WHOLE = replace(
    GOOD,
    about=ABOUT,
    faults=[
        Fault(at_s=5.0, what="pause n1 both", node="n1", until_s=9.0),
        Fault(at_s=6.0, what="kill-all at once"),
        Fault(at_s=7.0, what="pause n2 log", node="n2", until_s=8.0),
    ],
    absences=[
        Absence(node="n1", from_s=5.0, until_s=9.0, how="paused"),
        Absence(node="n2", from_s=6.0, until_s=float("inf"), how="down"),
    ],
    leaders=[LeaderSeen(at_s=1.0, node="n1", term=1), LeaderSeen(at_s=6.5, node="n2", term=2)],
    samples=[
        Sample(at_s=at_s, node="n1", process="log", descriptors=9, threads=2, rss_bytes=5 << 20, disk_bytes=6)
        for at_s in (5.0, 70.0)
    ],
)


class Page(HTMLParser):
    """Its elements and texts; raises when an element is not closed where it must be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def of_class(self, kind: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if kind in (attributes.get("class") or "").split()]


def test_it_says_where_it_comes_from_and_what_held() -> None:
    page = Page(report_of(WHOLE))
    for said in ("All promises were kept", "abc1234", "horae chaos live --seed 77", "5.0 min", "1970-01-01 00:00:00"):
        assert said in page.text
    assert "real processes" in page.text
    assert "I10 Reads are linearizable" in page.text
    assert (len(page.of_class("chip")), len(page.of_class("kept"))) == (15, 14)
    assert "14 kept, 1 not exercised (I10)" in page.text


def test_it_says_how_much_was_looked_at() -> None:
    assert "4 calls of targets" in Page(report_of(WHOLE)).text
    assert "0 calls of targets" in Page(report_of(replace(WHOLE, effects=[]))).text


def test_it_shows_what_broke_and_counts_what_it_does_not_show() -> None:
    many = replace(WHOLE, broken=[f"error {number}" for number in range(VIOLATIONS_SHOWN_MAX + 3)])
    page = Page(report_of(many))
    assert "A promise was not kept" in page.text
    assert "error 19" in page.text
    assert "error 20" not in page.text
    assert "and 3 more" in page.text
    assert len(page.of_class("failed")) == 1
    assert [attributes for tag, attributes in page.elements if tag == "details" and "open" in attributes]


def test_the_timeline_draws_faults_absences_leaders_and_requests() -> None:
    page = Page(report_of(WHOLE))
    assert len([band for band in page.of_class("fault") if "x" in band]) == len(WHOLE.faults)
    assert [len([band for band in page.of_class(kind) if "x" in band]) for kind in ("paused", "down")] == [1, 1]
    assert "n1 led from 0:01, term 1" in page.text
    assert "n2 down from 0:06 to the end" in page.text
    assert len(page.of_class("change")) == 1
    [answered] = [path for path in page.of_class("ok") if "d" in path]
    assert (answered["d"] or "").count("M") == 1, "three at one moment are one point"


def test_a_fault_is_as_long_as_it_lasted() -> None:
    bands = [band for band in Page(report_of(WHOLE)).of_class("fault") if "x" in band]
    widths = sorted(float(band["width"] or 0) for band in bands)
    assert widths[2] == pytest.approx(4 * widths[1], rel=0.02)


def test_late_starts_are_told_apart() -> None:
    late = replace(with_truth(claimed(70)), effects=[*GOOD.effects, effect(70, at_s=75.0)])
    page = Page(report_of(late))
    [path] = [path for path in page.of_class("late") if "d" in path]
    assert (path["d"] or "").count("M") == 1
    assert "5.0 s" in page.text


def test_a_history_of_nothing_has_a_page() -> None:
    nothing = replace(
        GOOD, operations=[], truth=[], effects=[], effect_ends=[], states=[], end_s=0.0, healed_s=0.0, caught_up_s=None
    )
    page = Page(report_of(nothing))
    for said in ("No run was started.", "Nobody asked anything.", "Nothing was broken on purpose.", "not recorded"):
        assert said in page.text


def test_hostile_text_stays_text() -> None:
    history = replace(
        with_effects(effect(8, run_id=HOSTILE, node=HOSTILE)),
        about=replace(ABOUT, command=HOSTILE, commit=HOSTILE),
        faults=[Fault(at_s=5.0, what=HOSTILE, node="n1")],
        broken=[HOSTILE],
        absences=[Absence(node=HOSTILE, from_s=1.0, until_s=2.0, how="down")],
        operations=[replace(operation("create", HOSTILE), name=HOSTILE)],
    )
    text = report_of(history)
    page = Page(text)
    assert not [tag for tag, _ in page.elements if tag == "script"]
    assert "alert(1)" in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)


def test_it_needs_nothing_else() -> None:
    text = report_of(WHOLE)
    page = Page(text)
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "use"}
    assert not [attributes for _, attributes in page.elements if {"src", "href", "srcset"} & attributes.keys()]
    assert not re.search(r"https?:|url\(|@import", text)


def test_a_page_of_many_runs_stays_small() -> None:
    places = [(number % 1000 / 1.0, number % 150 / 1.0) for number in range(100_000)]
    assert len(points(places, "points").get("d", "")) < 100_000


def test_scales() -> None:
    assert Scale(low=0, high=10, start=100, end=200).at(5) == 150
    assert Scale(low=0, high=10, start=100, end=200).at(99) == 200
    assert LogScale(low=0.01, high=100, start=400, end=0).at(1) == 200
    assert LogScale(low=0.01, high=100, start=400, end=0).at(-1) == 400
    assert time_ticks(95.0) == [float(second) for second in range(0, 96, 10)]
    assert [clock(5), clock(65), clock(3665)] == ["0:05", "1:05", "1:01:05"]
    assert [duration(0.0123), duration(3.21), duration(300)] == ["12 ms", "3.2 s", "5.0 min"]
    assert [size(5), size(5 << 10), size(5 << 20), size(5 << 30)] == ["5 B", "5 KiB", "5 MiB", "5.0 GiB"]


def judged(tmp_path: Path, history: History) -> tuple[int, str]:
    write_history(tmp_path / "history.jsonl", history)
    told = CliRunner().invoke(main, ["chaos", "report", str(tmp_path / "history.jsonl"), "-o", str(tmp_path / "page")])
    return told.exit_code, told.output


def test_the_command_writes_the_page_and_says_a_line_with_an_exit_code(tmp_path: Path) -> None:
    code, said = judged(tmp_path, WHOLE)
    assert (code, said.splitlines()[-1][:6]) == (0, "passed")
    assert (tmp_path / "page").read_text() == report_of(WHOLE)
    code, said = judged(tmp_path, replace(WHOLE, broken=["n1: KeyError"]))
    assert (code, said.splitlines()[-1][:6]) == (1, "FAILED")


def test_the_command_refuses_what_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text('{"kind": "History"}')
    told = CliRunner().invoke(main, ["chaos", "report", str(tmp_path / "odd")])
    assert told.exit_code == 2
    assert "no history" in told.output

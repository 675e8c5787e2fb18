"""A history that was written is the history that is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.history import About, Absence, History, LeaderSeen, Sample, Seen
from chaos.history_file import NoHistory, read_history, write_history
from tests.chaos.histories import GOOD, operation

SEEN = Seen(applied_index=7, stale_s=0.5, jobs={"j": ("n", 1)})
WHOLE = replace(
    GOOD,
    operations=[
        *GOOD.operations,
        replace(operation("read", "j"), seen=SEEN),
    ],
    absences=[
        Absence(node="n1", from_s=1.0, until_s=2.5, how="paused", process="log"),
        Absence(node="n2", from_s=1.0, until_s=float("inf"), how="down"),
    ],
    leaders=[LeaderSeen(at_s=0.5, node=None, term=1), LeaderSeen(at_s=1.5, node="n2", term=2)],
    samples=[Sample(at_s=1.0, node="n1", process="log", descriptors=9, threads=2, rss_bytes=5, disk_bytes=6)],
    about=About(harness="live", seed=1, nodes=3, commit="abc", command="horae", began_ms=5, real_s=2.0),
    broken=["n1: KeyError"],
)


def plain(history: History) -> Any:
    """Without the difference between lists and tuples."""
    return json.loads(json.dumps(msgspec.to_builtins(history)))


def test_a_history_comes_back_as_it_was(tmp_path: Path) -> None:
    write_history(tmp_path / "history", WHOLE)
    assert plain(read_history(tmp_path / "history")) == plain(WHOLE)
    assert WHOLE.truth, "a history without events proves nothing"
    assert WHOLE.states


def test_each_event_has_a_line(tmp_path: Path) -> None:
    write_history(tmp_path / "history", WHOLE)
    lines = (tmp_path / "history").read_bytes().splitlines()
    events = (
        *(WHOLE.operations, WHOLE.truth, WHOLE.effects, WHOLE.effect_ends, WHOLE.faults),
        *(WHOLE.states, WHOLE.absences, WHOLE.leaders, WHOLE.samples),
    )
    assert len(lines) == sum(map(len, events)) + 1


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    write_history(tmp_path / "history", WHOLE)
    lines = (tmp_path / "history").read_bytes().splitlines(keepends=True)
    (tmp_path / "history").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(NoHistory, match="cut off"):
        read_history(tmp_path / "history")

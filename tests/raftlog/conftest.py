"""Makes this directory's own modules (raftlog_bench, raftlog_simulator, …) importable by its tests, and its
fixtures."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from raftlog_bench import Bench

from raftlog.errors import LogBroken


class Guard:
    """A directed test runs twice: with the guard it is about, and with that guard removed, when it must fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, removed: bool) -> None:
        self._monkeypatch = monkeypatch
        self.removed = removed

    def remove(self, owner: Any, name: str, replacement: Any) -> None:
        """In the second run, put `replacement` in the guard's place."""
        if self.removed:
            self._monkeypatch.setattr(owner, name, replacement, raising=False)

    def verdict(self) -> AbstractContextManager[Any]:
        """Around the scenario: without the guard it must break an assertion, the scenario's own or the log's."""
        return pytest.raises((AssertionError, LogBroken)) if self.removed else nullcontext()


@pytest.fixture(params=["guarded", "guard removed"])
def guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Guard:
    return Guard(monkeypatch, removed=request.param == "guard removed")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three connected nodes without a leader."""
    made = Bench(tmp_path)
    made.connect_all()
    yield made
    made.close()


@pytest.fixture
def bench_of_five(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, 5)
    made.connect_all()
    yield made
    made.close()

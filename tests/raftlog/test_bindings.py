from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

import pysyncobj.version
import pytest
from pysyncobj import syncobj

import raftlog
from raftlog import pysyncobj_bindings as bindings
from raftlog.config import RaftConfig
from raftlog.errors import LogBroken, LogRefused

PACKAGE = Path(raftlog.__file__).parent


def test_the_installed_library_is_what_it_should_be() -> None:
    bindings.verify_library()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pysyncobj.version, "VERSION", "0.3.18")
    with pytest.raises(LogRefused, match=r"pysyncobj 0\.3\.17 is required, 0\.3\.18 is installed"):
        bindings.verify_library()


@pytest.mark.parametrize("name", [*bindings.OVERRIDDEN, *bindings.CALLED])
def test_a_missing_method_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delattr(syncobj.SyncObj, name)
    with pytest.raises(LogRefused, match=f"missing: .*{name}"):
        bindings.verify_library()


@pytest.mark.parametrize("name", bindings.SEAMS)
def test_a_missing_module_name_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delattr(syncobj, name)
    with pytest.raises(LogRefused, match=f"module name {name}"):
        bindings.verify_library()


def test_an_override_that_the_library_no_longer_calls_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be a guard that guards nothing."""
    monkeypatch.setattr(syncobj.SyncObj, "_onTick", lambda self, time_to_wait=0.0: None)
    with pytest.raises(LogRefused, match="the call of _SyncObj__applyLogEntries in _onTick"):
        bindings.verify_library()


def test_an_attribute_that_is_no_longer_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "ATTRIBUTES", ("_SyncObj__raftLostIndex",))
    with pytest.raises(LogRefused, match="_SyncObj__raftLostIndex"):
        bindings.verify_library()


def test_every_private_name_in_use_is_on_the_list() -> None:
    """Collected from the source of raftlog: attributes and overrides that begin with the library's mangled prefix."""
    used: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "name", None)
            if isinstance(name, str) and name.startswith("_SyncObj__"):
                used.add(name)
    listed = {*bindings.OVERRIDDEN, *bindings.CALLED, *bindings.ATTRIBUTES}
    assert used
    assert used <= listed
    assert {name for name in listed if name.startswith("_SyncObj__")} <= used, "listed and not used any more"


def test_only_core_elections_and_the_bindings_touch_private_names() -> None:
    for path in PACKAGE.glob("*.py"):
        if path.name not in ("core.py", "elections.py", "state_copies.py", "pysyncobj_bindings.py"):
            assert "_SyncObj__" not in path.read_text(), path.name


def test_the_library_gets_clock_and_chance_of_the_node_at_work() -> None:
    first = bindings.Seams(clock=lambda: 1.0, random=random.Random(1), journal="journal 1")
    second = bindings.Seams(clock=lambda: 2.0, random=random.Random(2), journal="journal 2")
    for seams, time in ((first, 1.0), (second, 2.0), (first, 1.0)):
        with seams:
            assert syncobj.monotonicTime() == time
            assert syncobj.createJournal("anything") == seams.journal
    with first:
        drawn = syncobj.random.random()
    assert drawn == random.Random(1).random()


def test_the_library_does_not_work_without_a_node() -> None:
    for call in (lambda: syncobj.monotonicTime(), lambda: syncobj.random.random(), lambda: syncobj.createJournal(None)):
        with pytest.raises(LogBroken, match="without a node at work"):
            call()


def test_nodes_do_not_call_each_other_at_work() -> None:
    first = bindings.Seams(clock=lambda: 1.0, random=random.Random(1), journal=None)
    second = bindings.Seams(clock=lambda: 2.0, random=random.Random(2), journal=None)
    with first, pytest.raises(LogBroken, match="inside a node's step"), second:
        pass
    with second:
        assert syncobj.monotonicTime() == 2.0


@pytest.mark.parametrize("call", ["pickle.loads", "pickle.dumps", "time.sleep"])
def test_pickle_and_sleep_are_out_of_the_librarys_reach(call: str) -> None:
    module, function = call.split(".")
    with pytest.raises(LogBroken, match=call):
        getattr(getattr(syncobj, module), function)


def test_members_hash_the_same_in_every_process() -> None:
    """hash() of a text is salted by the process; a set of members would iterate in another order each time."""
    assert hash(bindings.PeerNode("n1")) == int.from_bytes(b"n1", "big")
    assert bindings.PeerNode("n1") == bindings.PeerNode("n1") != bindings.PeerNode("n2")


def test_the_settings_are_those_that_were_tried() -> None:
    settings: Any = bindings.library_settings(RaftConfig())
    assert (settings.autoTick, settings.appendEntriesUseBatch, settings.dynamicMembershipChange) == (False, True, False)
    assert (settings.appendEntriesPeriod, settings.raftMinTimeout, settings.raftMaxTimeout) == (0.1, 0.6, 1.2)
    assert (settings.leaderFallbackTimeout, settings.connectionTimeout) == (1.5, 4.0)
    assert (settings.appendEntriesBatchSizeBytes, settings.commandsQueueSize) == (1024 * 1024, 0)
    assert (settings.fullDumpFile, settings.useFork, settings.password) == (None, False, None)

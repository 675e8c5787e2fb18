from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftlog.disk import LmdbDisk
from raftlog.errors import LogBroken
from raftlog.journal import LmdbJournal
from raftlog.meta import MetaStore


def opened(path: Path, *, cache_bytes: int = 1 << 20) -> LmdbJournal:
    disk = LmdbDisk(path, map_bytes=64 * 1024 * 1024, synchronous=False)
    return LmdbJournal(disk, MetaStore(disk), cache_bytes=cache_bytes)


def reopened(journal: LmdbJournal) -> LmdbJournal:
    journal._disk.commit()
    journal._disk.abort()
    return LmdbJournal(journal._disk, MetaStore(journal._disk), cache_bytes=1 << 20)


@pytest.fixture
def journal(tmp_path: Path) -> LmdbJournal:
    return opened(tmp_path)


def fill(journal: LmdbJournal, count: int, term: int = 1) -> None:
    for index in range(journal.last_index + 1, journal.last_index + count + 1):
        journal.add(b"entry %d" % index, index, term)


def test_an_empty_journal_is_empty(journal: LmdbJournal) -> None:
    assert len(journal) == 0
    assert journal.last_index == 0
    assert not journal[0:]
    with pytest.raises(IndexError):
        journal[-1]


def test_positions_count_from_the_first_entry(journal: LmdbJournal) -> None:
    fill(journal, 5)
    assert len(journal) == 5
    assert journal[0] == (b"entry 1", 1, 1)
    assert journal[1] == (b"entry 2", 2, 1)
    assert journal[-1] == (b"entry 5", 5, 1)
    assert journal[-5] == (b"entry 1", 1, 1)
    for position in (5, -6):
        with pytest.raises(IndexError):
            journal[position]


def test_slices_are_what_a_list_would_give(journal: LmdbJournal) -> None:
    fill(journal, 6)
    model = [(b"entry %d" % index, index, 1) for index in range(1, 7)]
    for start in range(-1, 9):
        tail = journal[max(start, 0) :]
        assert list(tail) == model[max(start, 0) :]
        assert len(tail) == len(model[max(start, 0) :])
        for stop in range(start, 9):
            assert journal[max(start, 0) : stop] == model[max(start, 0) : stop]
            assert tail[: max(0, stop)] == model[max(start, 0) :][: max(0, stop)]


def test_a_tail_reads_what_is_looked_at(journal: LmdbJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(journal, 1000)
    looked_at: list[int] = []
    entry = LmdbJournal.entry
    monkeypatch.setattr(LmdbJournal, "entry", lambda self, index: (looked_at.append(index), entry(self, index))[1])
    tail = journal[99:]
    assert len(tail) == 901
    assert tail[0][1] == 100
    assert [item[1] for _, item in zip(range(3), tail, strict=False)] == [100, 101, 102]
    assert len(looked_at) <= 6


def test_everything_is_there_after_opening_again(journal: LmdbJournal) -> None:
    fill(journal, 3)
    journal.setCurrentTerm(4, "n2")
    journal.setRaftCommitIndex(2)
    again = reopened(journal)
    assert list(again[0:]) == list(journal[0:])
    assert (again.getCurrentTerm(), again.getVotedForNodeId(), again.getRaftCommitIndex()) == (4, "n2", 2)


def test_what_was_not_committed_is_gone(journal: LmdbJournal) -> None:
    fill(journal, 3)
    journal._disk.commit()
    fill(journal, 2)
    journal.setCurrentTerm(9, "n3")
    journal._disk.abort()
    again = reopened(journal)
    assert (again.last_index, again.getCurrentTerm()) == (3, 0)


def test_a_matching_entry_is_kept_with_all_behind_it(journal: LmdbJournal) -> None:
    fill(journal, 5)
    journal.deleteEntriesFrom(2)
    journal.add(b"entry 3", 3, 1)
    assert journal.last_index == 5


def test_a_conflicting_entry_replaces_the_tail(journal: LmdbJournal) -> None:
    fill(journal, 5)
    journal.add(b"other", 3, 2)
    assert list(journal[0:]) == [(b"entry 1", 1, 1), (b"entry 2", 2, 1), (b"other", 3, 2)]
    assert list(reopened(journal)[0:]) == list(journal[0:])


def test_a_committed_entry_is_never_cut_off(journal: LmdbJournal) -> None:
    fill(journal, 5)
    journal.setRaftCommitIndex(3)
    with pytest.raises(LogBroken, match="entry 3 is committed"):
        journal.add(b"other", 3, 2)
    journal.add(b"other", 4, 2)
    assert journal.last_index == 4


def test_two_entries_of_one_term_and_index_stop_the_process(journal: LmdbJournal) -> None:
    fill(journal, 2)
    with pytest.raises(LogBroken, match="two different entries at index 2"):
        journal.add(b"other", 2, 1)


def test_a_gap_stops_the_process(journal: LmdbJournal) -> None:
    fill(journal, 2)
    with pytest.raises(LogBroken, match="gap"):
        journal.add(b"entry 4", 4, 1)


def test_term_and_commit_index_never_fall(journal: LmdbJournal) -> None:
    fill(journal, 3)
    journal.setCurrentTerm(2, "n1")
    journal.setRaftCommitIndex(3)
    with pytest.raises(LogBroken, match="term would fall"):
        journal.setCurrentTerm(1, None)
    with pytest.raises(LogBroken, match="commit index would fall"):
        journal.setRaftCommitIndex(2)


def test_trimming_and_clearing_are_refused(journal: LmdbJournal) -> None:
    """They come with snapshots; until then a call would lose entries."""
    fill(journal, 3)
    with pytest.raises(LogBroken):
        journal.deleteEntriesTo(1)
    with pytest.raises(LogBroken):
        journal.clear()


def test_entries_beyond_the_cache_are_read_from_the_disk(tmp_path: Path) -> None:
    journal = opened(tmp_path, cache_bytes=1000)
    fill(journal, 500)
    assert len(journal._cache) < 150
    assert journal._cache_bytes <= 1000
    assert journal.entry(1) == (b"entry 1", 1, 1)
    assert [entry[1] for entry in journal[0:]] == list(range(1, 501))


def test_a_full_cache_costs_no_more_than_an_empty_one(tmp_path: Path) -> None:
    """The oldest entry is found by its index: to look for a dictionary's first key passes over every deleted one."""
    journal = opened(tmp_path, cache_bytes=1000)
    fill(journal, 200)
    assert sorted(journal._cache) == list(range(journal._cache_first, 201))
    for index in (150, 20):
        journal.add(b"other", index, index)
        assert sorted(journal._cache) == list(range(journal._cache_first, index + 1))
    fill(journal, 100, term=150)
    assert sorted(journal._cache) == list(range(journal._cache_first, journal.last_index + 1))
    assert sum(len(entry[0]) for entry in journal._cache.values()) == journal._cache_bytes <= 1000


def test_a_batch_ends_behind_the_entry_that_fills_it(journal: LmdbJournal) -> None:
    for index in range(1, 6):
        journal.add(bytes(10), index, 1)
    assert [entry[1] for entry in journal.batch(2, 20)] == [2, 3]
    assert [entry[1] for entry in journal.batch(2, 21)] == [2, 3, 4]
    assert [entry[1] for entry in journal.batch(4, 1000)] == [4, 5]
    assert [entry[1] for entry in journal.batch(2, 1)] == [2]
    assert journal.batch(6, 1000) == []


def test_an_unchanged_term_or_commit_index_writes_nothing(journal: LmdbJournal) -> None:
    fill(journal, 3)
    journal.setCurrentTerm(2, "n1")
    journal.setRaftCommitIndex(3)
    journal._disk.commit()
    before = journal._disk.environment.info()["last_txnid"]
    journal.setCurrentTerm(2, "n1")
    journal.setRaftCommitIndex(3)
    journal._disk.commit()
    assert journal._disk.environment.info()["last_txnid"] == before


APPENDS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3)), max_size=25)
"""(how far back from the end, entries, raise of the term)"""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(appends=APPENDS, cache_bytes=st.sampled_from([0, 30, 1 << 20]), reopen=st.booleans())
def test_the_journal_is_a_list_that_settles_conflicts(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, int, int]], cache_bytes: int, reopen: bool
) -> None:
    """Against a model: an entry with the index and term of one that is there changes nothing, another term replaces the
    tail, the next index appends."""
    journal = opened(tmp_path_factory.mktemp("journal"), cache_bytes=cache_bytes)
    model: list[Any] = [(b"the same everywhere", 1, 0)]
    journal.add(*model[0])
    term = 1
    for back, count, rise in appends:
        term += rise - 1
        start = max(1, len(model) - back)
        for index in range(start + 1, start + count + 1):
            entry = (b"%d in %d" % (index, term), index, term)
            journal.add(*entry)
            if index > len(model) or model[index - 1][2] != term:
                model[index - 1 :] = [entry]
    if reopen:
        journal = reopened(journal)
    assert list(journal[0:]) == model
    assert len(journal) == len(model)
    journal._disk.close()


def test_trimming_takes_the_oldest_entries_a_few_at_a_time(journal: LmdbJournal) -> None:
    fill(journal, 20)
    journal.setRaftCommitIndex(15)
    journal.trim(10, 4)
    assert (journal.first_index, len(journal)) == (5, 16)
    journal.trim(10, 100)
    assert [entry[1] for entry in journal[0:]] == list(range(10, 21))
    assert journal[0] == journal.entry(10)
    with pytest.raises(LogBroken, match="missing"):
        journal.entry(9)
    reopened_journal = reopened(journal)
    assert [entry[1] for entry in reopened_journal[0:]] == list(range(10, 21))
    assert reopened_journal.first_index == 10


def test_trimming_leaves_what_is_not_committed(journal: LmdbJournal) -> None:
    fill(journal, 20)
    journal.setRaftCommitIndex(15)
    with pytest.raises(LogBroken, match="would come first"):
        journal.trim(16, 100)
    journal.trim(15, 100)
    assert [entry[1] for entry in journal[0:]] == list(range(15, 21))


@pytest.mark.parametrize("cache_bytes", [0, 100, 1 << 20])
def test_the_cache_follows_the_trimming(tmp_path: Path, cache_bytes: int) -> None:
    journal = opened(tmp_path, cache_bytes=cache_bytes)
    fill(journal, 30)
    journal.setRaftCommitIndex(30)
    journal.trim(28, 100)
    fill(journal, 30)
    assert sorted(journal._cache) == list(range(journal._cache_first, journal.last_index + 1))
    assert sum(len(entry[0]) for entry in journal._cache.values()) == journal._cache_bytes
    assert [entry[1] for entry in journal[0:]] == list(range(28, 61))


def test_what_the_log_takes_falls_with_trimming(journal: LmdbJournal) -> None:
    for index in range(1, 101):
        journal.add(bytes(4000), index, 1)
    journal.setRaftCommitIndex(100)
    before = journal.disk_bytes()
    assert before > 400_000
    journal.trim(50, 1000)
    assert journal.disk_bytes() < 0.6 * before


def test_a_copy_of_the_state_begins_a_new_log(journal: LmdbJournal) -> None:
    fill(journal, 5)
    journal.install(9, 3)
    assert (journal.first_index, journal.last_index, journal.getRaftCommitIndex()) == (9, 9, 9)
    journal.add(b"next", 10, 4)
    journal = reopened(journal)
    assert [entry[1:] for entry in journal[0:]] == [(9, 3), (10, 4)]
    assert journal.getRaftCommitIndex() == 9


def test_a_copy_of_the_state_keeps_a_log_that_has_its_entry(journal: LmdbJournal) -> None:
    fill(journal, 5)
    journal.install(3, 1)
    assert (journal.first_index, journal.last_index, journal.getRaftCommitIndex()) == (1, 5, 3)
    with pytest.raises(LogBroken, match="older"):
        journal.install(3, 1)

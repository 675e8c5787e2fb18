from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from statemachine.codec import encode, encode_command
from statemachine.commands import ExpireSession
from statemachine.machine import Machine
from statemachine.tables import TABLE_NAMES, open_environment
from tests.statemachine.driver import NOW_MS, Driver, Proposal, a_job, fire, put_job, tick
from tests.statemachine.test_model import random_history

ROOT = Path(__file__).resolve().parents[2]


def test_an_empty_store_stands_at_index_0(driver: Driver) -> None:
    with driver.environment.begin() as transaction:
        assert driver.machine.applied_index(transaction) == 0


def test_entries_move_the_index_whether_they_hold_commands_or_not(driver: Driver) -> None:
    driver.put()
    outcome = driver.propose(None)
    assert (outcome.replies, outcome.events) == ([], [])
    with driver.environment.begin() as transaction:
        assert driver.machine.applied_index(transaction) == 2


@pytest.mark.parametrize("index", [0, 1, 3])
def test_only_the_next_entry_can_be_applied(driver: Driver, index: int) -> None:
    driver.put()
    with driver.environment.begin(write=True) as transaction, pytest.raises(AssertionError):
        driver.machine.apply(transaction, index=index, proposal=None)


def test_a_tick_that_was_aborted_is_applied_again_to_the_same_state(
    owned: Driver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The log process dies before its commit, or the tick is rolled back: nothing of it is left, in memory either."""
    owned.put("A")
    proposals = [
        Proposal(seq=100, commands=[encode_command(fire(tick(NOW_MS + 1000, NOW_MS + 2000)))]),
        Proposal(seq=101, commands=[encode_command(put_job("B"))]),
    ]
    before = owned.digest()
    transaction = owned.environment.begin(write=True)
    for place, proposal in enumerate(proposals, 1):
        owned.machine.apply(transaction, index=owned.index + place, proposal=proposal)
    transaction.abort()
    assert owned.digest() == before
    outcomes = [owned.propose(proposal) for proposal in proposals]
    assert [outcome.reply.code for outcome in outcomes] == ["ok", "ok"]
    twin = Driver(tmp_path_factory.mktemp("twin"))
    twin.open()
    twin.own_all()
    twin.put("A")
    for proposal in proposals:
        twin.propose(proposal)
    assert twin.digest() == owned.digest()


def test_a_restarted_machine_goes_on_where_the_state_stands(driver: Driver) -> None:
    driver.put("A")
    driver.machine = Machine(driver.environment)
    assert driver.put("B").code == "ok"
    with driver.snapshot() as snapshot:
        assert [job.job_id for job in snapshot.jobs()] == ["A", "B"]


def test_the_digest_sees_every_table(driver: Driver) -> None:
    """I6 is only as good as what the digest looks at."""
    digests = {driver.digest()}
    for name in TABLE_NAMES:
        with driver.environment.begin(write=True) as transaction:
            transaction.put(b"k", b"v", db=getattr(driver.machine.tables(transaction), name))
        digests.add(driver.digest())
    assert len(digests) == len(TABLE_NAMES) + 1


def test_the_digest_keeps_keys_and_values_apart(driver: Driver) -> None:
    digests = set()
    for key, value in ((b"ab", b"c"), (b"a", b"bc")):
        with driver.environment.begin(write=True) as transaction:
            table = driver.machine.tables(transaction).rotation
            transaction.drop(table, delete=False)
            transaction.put(key, value, db=table)
        digests.add(driver.digest())
    assert len(digests) == 2


def test_the_digest_holds_the_applied_index(driver: Driver) -> None:
    before = driver.digest()
    driver.propose(None)
    assert driver.digest() != before


REPLAY = """
import sys
from tests.statemachine.test_machine import replayed_digest
print(replayed_digest(sys.argv[1]))
"""


def replayed_digest(path: str) -> str:
    """The digest after a random history, made from the same numbers in every process."""
    from tests.statemachine.model import Model
    from tests.statemachine.moves import beginning, commands

    driver, model, now_ms = Driver(path), Model(), 10 * NOW_MS
    for values in [[], *random_history(7)]:
        sent, node, now_ms = commands(model, values, now_ms) if values else (beginning(now_ms), "n1", now_ms)
        model.apply(sent, node)
        driver.apply(*sent, node=node)
    return driver.digest()


@pytest.mark.slow
def test_the_same_log_in_two_processes_gives_the_same_digest(tmp_path: Path) -> None:
    """I6, with what differs between processes: the salt of hashes."""
    digests = []
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        digests.append(
            subprocess.run(
                [sys.executable, "-c", REPLAY, str(tmp_path / seed)],
                cwd=ROOT,
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 32


def test_another_format_of_the_state_is_not_touched(tmp_path: Path) -> None:
    environment = open_environment(str(tmp_path))
    Machine(environment)
    with environment.begin(write=True) as transaction:
        transaction.put(b"format", (99).to_bytes(8, "big"), db=environment.open_db(b"state/meta", txn=transaction))
    with pytest.raises(AssertionError):
        Machine(environment)
    environment.close()


def test_a_broken_invariant_stops_the_machine(owned: Driver) -> None:
    """A claim without its run can only be damage: going on would spread it."""
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + 1000)))
    with owned.environment.begin(write=True) as transaction:
        transaction.drop(owned.machine.tables(transaction).runs, delete=False)
    with pytest.raises(AssertionError):
        owned.apply(ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0))


def test_a_record_of_another_format_stops_it_too(owned: Driver) -> None:
    with owned.environment.begin(write=True) as transaction:
        transaction.put(b"A", b"\x09" + encode(a_job())[1:], db=owned.machine.tables(transaction).jobs)
    with pytest.raises(ValueError, match="format version 09"):
        owned.apply(fire(tick(NOW_MS + 1000)))


def test_what_does_not_stand_at_the_index_of_a_copy_does_not_become_the_state(owned: Driver) -> None:
    before = owned.digest()
    with owned.environment.begin(write=True) as transaction:
        assert not owned.machine.install(transaction, index=5)
    assert owned.digest() == before

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from statemachine.machine import Machine
from statemachine.reader import StateMissing, StateReader
from statemachine.tables import open_environment
from tests.statemachine.driver import Driver

ROOT = Path(__file__).resolve().parents[2]

READ = """
import sys
from statemachine.reader import StateReader
reader = StateReader(sys.argv[1])
for line in sys.stdin:
    with reader.snapshot() as snapshot:
        print(snapshot.applied_index(), snapshot.digest(), flush=True)
reader.close()
"""


@pytest.mark.slow
def test_another_process_reads_what_was_committed(driver: Driver, tmp_path: Path) -> None:
    """The node process beside the log process: many readers, one writer, the same map size."""
    command = [sys.executable, "-c", READ, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for index, job_id in enumerate("ABC", 1):
            driver.put(job_id)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline().split() == [str(index), driver.digest()]
        process.stdin.close()
        assert process.wait(10) == 0


def test_a_snapshot_stands_still(driver: Driver) -> None:
    driver.put("A")
    with driver.snapshot() as snapshot:
        driver.put("B")
        assert snapshot.applied_index() == 1
        assert [job.job_id for job in snapshot.jobs()] == ["A"]
    with driver.snapshot() as snapshot:
        assert snapshot.applied_index() == 2


def test_what_is_not_committed_is_not_seen(driver: Driver) -> None:
    with driver.environment.begin(write=True) as transaction:
        driver.machine.apply(transaction, index=1, proposal=None)
        with driver.snapshot() as snapshot:
            assert snapshot.applied_index() == 0


def test_a_reader_opens_a_path_itself_and_closes_it(tmp_path: Path) -> None:
    environment = open_environment(str(tmp_path))
    Machine(environment)
    environment.close()
    reader = StateReader(str(tmp_path))
    with reader.snapshot() as snapshot:
        assert snapshot.applied_index() == 0
    reader.close()
    open_environment(str(tmp_path)).close()


def test_a_borrowed_environment_stays_open(driver: Driver) -> None:
    StateReader(driver.environment).close()
    assert driver.put().code == "ok"


def test_a_directory_without_a_state_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(StateMissing):
        StateReader(str(tmp_path / "missing"))
    environment = open_environment(str(tmp_path))
    with pytest.raises(StateMissing):
        StateReader(environment)
    environment.close()
    with pytest.raises(StateMissing):
        StateReader(str(tmp_path))


def test_a_reader_that_began_before_a_copy_was_installed_sees_the_old_state(driver: Driver) -> None:
    driver.put("A")
    with driver.snapshot() as before:
        with driver.environment.begin(write=True) as transaction:
            assert driver.machine.install(transaction, index=0), "nothing was received, so it stands at 0"
        assert before.applied_index() == 1
        assert [job.job_id for job in before.jobs()] == ["A"]
    with driver.snapshot() as snapshot:
        assert snapshot.applied_index() == 0
        assert snapshot.jobs() == []


def test_a_reader_says_how_full_the_environment_is(driver: Driver) -> None:
    before = driver.reader.space()
    for number in range(50):
        driver.put(f"J{number}", args=b"x" * 4000)
    after = driver.reader.space()
    assert before.used_bytes + 50 * 4000 < after.used_bytes < after.map_bytes == before.map_bytes


def test_the_space_in_use_grows_within_the_map(driver: Driver) -> None:
    before = driver.reader.space()
    for number in range(50):
        driver.put(f"J{number}", args=b"x" * 4000)
    after = driver.reader.space()
    assert before.used_bytes + 50 * 4000 < after.used_bytes < after.map_bytes == before.map_bytes

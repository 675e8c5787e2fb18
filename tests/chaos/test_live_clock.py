"""Nothing of a live run is left behind."""

from __future__ import annotations

from pathlib import Path

from chaos.live_clock import forget_dead_clocks


def test_what_killed_processes_left_of_their_clocks_goes_and_nothing_else(tmp_path: Path) -> None:
    shared, processes = tmp_path / "shm", tmp_path / "proc"
    (processes / "77").mkdir(parents=True)
    shared.mkdir()
    left = {"faketime_shm_78", "sem.faketime_sem_78"}
    names = left | {"faketime_shm_77", "sem.faketime_sem_77", "faketime_shm_x", "other_78"}
    for name in names:
        (shared / name).touch()
    forget_dead_clocks(shared, processes)
    assert {path.name for path in shared.iterdir()} == names - left

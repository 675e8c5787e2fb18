from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.statemachine.driver import Driver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A machine with nothing in it."""
    driver = Driver(tmp_path)
    yield driver
    driver.environment.close()


@pytest.fixture
def owned(driver: Driver) -> Driver:
    """A machine where node n1 has a session (10 slots, 10 ahead) and owns every bucket at epoch 1."""
    driver.open()
    driver.own_all()
    return driver

"""How the tests are shared out among workers (pytest-xdist)."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real nodes go one after the other on one worker, since each is a machine's worth of processes that
    mostly wait; what computes goes on the others."""
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.xdist_group("cluster"))

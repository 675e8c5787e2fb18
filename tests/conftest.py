"""What tests of several folders share: how they are shared out among workers (pytest-xdist), and a real engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker_engine import running_engine


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real nodes go one after the other on one worker, since each is a machine's worth of processes that
    mostly wait, and those with a real engine there too, so that one is started; what computes goes on the others."""
    for item in items:
        if item.get_closest_marker("cluster") or "docker_socket" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def docker_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a real Docker Engine that holds the image `horae-test:1`. Skips where none can run."""
    with running_engine(tmp_path_factory.mktemp("engine")) as path:
        yield path

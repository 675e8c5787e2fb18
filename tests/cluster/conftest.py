"""Three real nodes, a client of theirs and a witness. Each test has its own; a failing test shows the nodes' logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.api import Api
from bench.local_cluster import LocalCluster
from tests.cluster.sink import Sink


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, LocalCluster):  # type: ignore[attr-defined]
        for name in cluster.places:
            report.sections.append((f"log of {name}", cluster.log_tail(name, lines=60)))  # type: ignore[attr-defined]
    return report


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(tmp_path) as started:
        yield started


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    async with Api(cluster.urls) as client:
        yield client


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    opened = Sink()
    await opened.open()
    yield opened
    await opened.close()

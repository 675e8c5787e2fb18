"""What each node has on its disk: opened after the node was killed, so that nothing of its memory can help it."""

from __future__ import annotations

from bench.api import Api
from bench.local_cluster import LocalCluster
from statemachine.reader import StateReader
from tests.cluster.conditions import until

ATTEMPTS = 10


async def digests_at_one_index(cluster: LocalCluster, api: Api) -> dict[str, str]:
    """Kill all nodes at once and read the digest of each, at the same applied index. Leaves the cluster down.

    Nodes renew their sessions all the time, so a kill may fall between two followers' applies: then start again."""
    seen: dict[str, tuple[int, str]] = {}
    for _ in range(ATTEMPTS):
        await until("equal applied indices", lambda: _equal_indices(cluster, api), 30)
        await cluster.kill(*cluster.places)
        seen = {name: _index_and_digest(cluster, name) for name in cluster.places}
        if len({index for index, _ in seen.values()}) == 1:
            return {name: digest for name, (_, digest) in seen.items()}
        cluster.start(*cluster.places)
        await cluster.wait_ready(*cluster.places)
    raise AssertionError(f"the nodes never stood at one index: {seen}")


async def _equal_indices(cluster: LocalCluster, api: Api) -> bool:
    views = [await api.call("GET", "/v1/cluster?consistency=local", node=name) for name in cluster.places]
    return len({view["applied_index"] for view in views}) == 1


def _index_and_digest(cluster: LocalCluster, name: str) -> tuple[int, str]:
    reader = StateReader(str(cluster.places[name].data_dir / "db"))
    try:
        with reader.snapshot() as snapshot:
            return snapshot.applied_index(), snapshot.digest()
    finally:
        reader.close()

"""A node of one, to be killed: proposes without end and prints what was acknowledged. Run as a program: <directory>."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from raftlog_applier import ChainApplier

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.interface import Proposal
from raftlog.node import RaftNode

MAP_BYTES = 1 << 30
IN_FLIGHT = 5


def opened(path: Path) -> tuple[RaftNode, LmdbDisk, ChainApplier]:
    disk = LmdbDisk(path, map_bytes=MAP_BYTES)
    applier = ChainApplier(disk)
    node = RaftNode(
        identity=Identity(node="n1", members=("n1",), cluster_id="killed", bootstrap=True),
        config=RaftConfig(),
        disk=disk,
        applier=applier,
        clock=time.monotonic,
        random=random.Random(),
    )
    return node, disk, applier


def main() -> None:
    node, _, _ = opened(Path(sys.argv[1]))
    seq = resolved = 0
    while True:
        for _ in range(random.randint(0, IN_FLIGHT - (seq - resolved))):
            seq += 1
            node.propose(
                Proposal(
                    node="n1",
                    incarnation=node.incarnation,
                    seq=seq,
                    acknowledged=resolved,
                    commands=[b"%d of incarnation %d" % (seq, node.incarnation)] * random.randint(1, 20),
                )
            )
        ready = node.step()
        node.commit()
        for result in ready.results:
            resolved += 1
            print(ready.status.term, ready.status.applied_index, result.replies[-1].decode(), flush=True)


if __name__ == "__main__":
    main()

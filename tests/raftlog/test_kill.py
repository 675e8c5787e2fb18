"""kill -9 of a node with real syncs: what it acknowledged is there when it is opened again, and nothing is half
there."""

from __future__ import annotations

import random
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest
from raftlog_killable import opened

from raftlog.envelope import decode
from raftlog.pysyncobj_bindings import NO_OP

ROUNDS = 4


def killed_after(path: Path, lines: int) -> tuple[int, int, int]:
    """Let a node run on this directory until it has acknowledged `lines` times; kill it, wherever it stands in its
    tick. Returns the last (term, applied index, commands applied) that it told."""
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("raftlog_killable.py")), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    told: list[str] = []
    try:
        while len(told) < lines:
            told.append(child.stdout.readline())
            assert told[-1], "the node ended by itself"
    finally:
        child.kill()
        told += child.stdout.readlines()
        child.wait()
        child.stdout.close()
    if not told[-1].endswith("\n"):
        told.pop()  # cut off in the middle of being told
    term, applied_index, commands = told[-1].split()
    return int(term), int(applied_index), int(commands)


@pytest.mark.cluster
@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    former_commands = 0
    for number in range(1, ROUNDS + 1):
        term, applied_index, commands = killed_after(tmp_path, random.randint(20, 120))
        assert commands > former_commands, "the state goes on where it was"
        node, disk, applier = opened(tmp_path)
        assert node.incarnation == 2 * number
        status = node.status
        assert status.term >= term
        assert status.applied_index >= applied_index
        assert status.applied_index <= status.commit_index <= status.last_index
        transaction = disk.transaction
        former_commands = applier.count(transaction)
        assert former_commands >= commands
        assert applier.digest(transaction) == digest_of_log(node._journal, status.applied_index)
        node.close()
        disk.close()


def digest_of_log(journal: object, applied_index: int) -> bytes:
    """What the state must be: the chain over the commands of the log up to its index."""
    digest = b""
    for payload, index, _ in journal[0:]:  # type: ignore[index]
        if index <= applied_index and payload != NO_OP:
            for command in decode(payload[1:]).commands:
                digest = blake2b(digest + command, digest_size=16).digest()
    return digest

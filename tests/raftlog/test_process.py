"""A real log process: its start, its refusals, and the ways it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import ledger
import pytest
import uvloop
from log_cluster import LogCluster, free_port

from raftlog import local_protocol as local
from raftlog.child import start_log_process
from raftlog.client import LogClient
from raftlog.config import RaftConfig
from raftlog.errors import LogClosed, LogRefused, OutcomeUnknown
from raftlog.process import EXIT_BROKEN, EXIT_DONE, EXIT_REFUSED, LogSettings, data_dir_locked, database_path

pytestmark = pytest.mark.cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    """One node, running."""
    cluster = LogCluster(tmp_path, 1)
    await cluster.start()
    yield cluster
    await cluster.close()


async def start(data_dir: Path, port: int | None = None, *, secret: bytes = ledger.SECRET) -> LogClient:
    peers = {"n1": f"127.0.0.1:{port or free_port()}"}
    return await start_log_process(ledger.argv(data_dir, "n1", peers, secret=secret), data_dir, RaftConfig())


async def exit_code(argv: list[str]) -> tuple[int, str, str]:
    """Run a log process by itself; nobody connects."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def argv(data_dir: Path, port: int | None = None) -> list[str]:
    return ledger.argv(data_dir, "n1", {"n1": f"127.0.0.1:{port or free_port()}"})


async def gone(process_id: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(10):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class TestStart:
    async def test_every_start_is_a_new_incarnation_of_the_same_state(self, tmp_path: Path) -> None:
        for life in (1, 2, 3):
            client = await start(tmp_path)
            assert client.incarnation == life
            assert await client.propose(b"command %d" % life) == b"%d" % life
            await client.close()

    async def test_the_files_are_their_owners_only(self, cluster: LogCluster) -> None:
        data_dir = cluster.data_dir("n1")
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE(local.socket_path(data_dir).stat().st_mode) == 0o600
        assert stat.S_IMODE((data_dir / "lock").stat().st_mode) == 0o600

    async def test_a_data_directory_in_use_is_refused_and_its_holder_named(self, cluster: LogCluster) -> None:
        holder = cluster.clients["n1"].process_id
        with pytest.raises(LogRefused, match=f"in use by process {holder}"):
            await start(cluster.data_dir("n1"))
        assert await cluster.clients["n1"].propose(b"still there") == b"1"

    async def test_a_raft_address_in_use_is_refused(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(LogRefused, match=rf"listen .* 127\.0\.0\.1:{port}: Address already in use"):
                await start(tmp_path, port)

    async def test_the_data_of_another_cluster_is_refused(self, tmp_path: Path) -> None:
        await (await start(tmp_path)).close()
        with pytest.raises(LogRefused, match="cluster"):
            await start(tmp_path, secret=b"the secret of another cluster")

    async def test_an_address_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LogRefused, match="host:port"):
            await start_log_process(ledger.argv(tmp_path, "n1", {"n1": "nowhere"}), tmp_path, RaftConfig())

    async def test_a_directory_that_cannot_be_made_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LogRefused, match="file"):
            await start(tmp_path / "file" / "below")

    async def test_a_damaged_store_is_refused(self, tmp_path: Path) -> None:
        database = database_path(tmp_path)
        database.mkdir(parents=True)
        (database / "data.mdb").write_bytes(b"not a database" * 1000)
        with pytest.raises(LogRefused, match="LMDB"):
            await start(tmp_path)

    async def test_a_program_that_is_no_log_process(self, tmp_path: Path) -> None:
        with pytest.raises(LogRefused, match="code 7"):
            await start_log_process([sys.executable, "-c", "raise SystemExit(7)"], tmp_path, RaftConfig())

    async def test_a_refusal_is_said_in_the_log_and_by_the_exit_code_without_a_traceback(self, tmp_path: Path) -> None:
        with data_dir_locked(tmp_path):
            code, out, err = await exit_code(argv(tmp_path))
        assert code == EXIT_REFUSED
        assert out == f"refused: the data directory {tmp_path} is in use by process {os.getpid()}\n"
        assert "does not start" in err
        assert "Traceback" not in err

    async def test_a_long_path_is_no_obstacle(self, tmp_path: Path) -> None:
        client = await start(tmp_path / ("d" * 120))
        assert await client.propose(b"x") == b"1"
        await client.close()

    def test_the_secret_does_not_show_in_the_settings(self) -> None:
        settings = LogSettings(data_dir=Path("d"), node="n1", listen="", peers={"n1": ""}, secret=b"do not tell it 12")
        assert "do not tell" not in repr(settings)


def test_a_client_on_uvloop(tmp_path: Path) -> None:
    async def live() -> None:
        client = await start(tmp_path)
        assert await asyncio.gather(*(client.propose(b"%d" % number) for number in range(100)))
        assert await client.read_barrier() >= 1
        LogCluster.signal_to(client, signal.SIGKILL)
        await client.closed
        await client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


class TestTheEnd:
    async def test_closing_the_client_ends_it_in_order(self, cluster: LogCluster) -> None:
        client = cluster.clients.pop("n1")
        await client.propose(b"x")
        assert client.process_id is not None
        await client.close()
        with pytest.raises(ProcessLookupError):
            os.kill(client.process_id, 0)
        assert not local.socket_path(cluster.data_dir("n1")).exists()

    async def test_signals_that_mean_the_node_process_do_not_end_it(self, cluster: LogCluster) -> None:
        client = cluster.clients["n1"]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            cluster.signal_to(client, number)
        assert await client.propose(b"x") == b"1"
        assert not client.closed.done()

    async def test_its_death_is_told(self, cluster: LogCluster) -> None:
        client = cluster.clients["n1"]
        cluster.signal_to(client, signal.SIGKILL)
        async with asyncio.timeout(10):
            assert "gone" in await client.closed
        with pytest.raises(LogClosed):
            await client.propose(b"x")

    async def test_a_broken_invariant_ends_it_and_what_was_acknowledged_stays(
        self, capfd: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        client = await start(tmp_path)
        assert await client.propose(b"before") == b"1"
        with pytest.raises(OutcomeUnknown):
            await client.propose(ledger.POISON)
        await client.closed
        await client.close()
        err = capfd.readouterr().err
        assert "CRITICAL the log process of n1 is broken; its last tick is not committed" in err
        assert "a broken invariant" in err
        kept = ledger.Ledger(tmp_path)
        assert kept.commands() == {b"before": 1}
        kept.close()

    async def test_it_dies_with_its_parent(self, tmp_path: Path) -> None:
        """Even when it is stopped and cannot see its socket close."""
        program = f"""
import asyncio, sys
sys.path[:0] = {[str(Path(ledger.__file__).parent)]!r}
import ledger
from raftlog.child import start_log_process
from raftlog.config import RaftConfig
from pathlib import Path
async def main():
    client = await start_log_process({argv(tmp_path)!r}, Path({str(tmp_path)!r}), RaftConfig())
    print(client.process_id, flush=True)
    await client.closed
asyncio.run(main())
"""
        parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        assert parent.stdout is not None
        child = int(await parent.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        parent.kill()
        await parent.wait()
        await gone(child)

    async def test_without_a_client_it_ends_cleanly_by_itself(self, tmp_path: Path) -> None:
        """The parent died between the start and the connection; here its patience is shortened."""
        told = json.dumps({"data_dir": str(tmp_path), "node": "n1", "peers": {"n1": f"127.0.0.1:{free_port()}"}})
        program = f"""
import sys
sys.path[:0] = {[str(Path(ledger.__file__).parent)]!r}
import ledger, json
from raftlog import server
server.CLIENT_WAIT_S = 0.05
sys.argv = ["ledger", json.dumps(json.loads({told!r}) | {{"secret": ledger.SECRET.decode()}})]
sys.exit(ledger.main())
"""
        code, out, err = await exit_code([sys.executable, "-c", program])
        assert (code, out) == (EXIT_DONE, "ready\n")
        assert "no node process connected" in err

    async def test_an_error_of_the_state_machine_at_start_is_no_refusal(self, tmp_path: Path) -> None:
        program = f"""
import sys
sys.path[:0] = {[str(Path(ledger.__file__).parent)]!r}
import ledger
def broken(environment):
    raise AssertionError("a bug")
ledger.LedgerApplier = broken
sys.argv = {argv(tmp_path)[1:]!r}
sys.exit(ledger.main())
"""
        code, out, err = await exit_code([sys.executable, "-c", program])
        assert (code, out) == (EXIT_BROKEN, "")
        assert "a bug" in err


def test_the_lock_is_free_again_after_its_holder(tmp_path: Path) -> None:
    with data_dir_locked(tmp_path), pytest.raises(LogRefused), data_dir_locked(tmp_path):
        pass
    with data_dir_locked(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"

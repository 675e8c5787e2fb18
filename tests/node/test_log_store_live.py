"""A node whose logs go to a real S3 server, and are read back from there when the node has gone (M20)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from node.interface import HttpTarget, JobDraft, RunState
from node.s3_store import open_store
from tests.node.conftest import LiveNode, made_node
from tests.node.object_stores import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server

OUTPUT = b"rows: 3\n" * 20_000


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    with s3_server(tmp_path / "s3") as url:
        yield url


@pytest.fixture
async def archiving(tmp_path: Path, endpoint: str) -> AsyncIterator[LiveNode]:
    async with made_node(tmp_path, log_store=open_store(f"s3://{BUCKET}/prod", endpoint)) as node:
        task = asyncio.create_task(node.node.runtime.run())
        yield node
        node.node.runtime.stop()
        await task


async def test_what_a_run_put_out_is_read_from_the_store_when_the_nodes_own_copy_has_gone(
    archiving: LiveNode, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=OUTPUT)

    app = web.Application()
    app.router.add_post("/", answer)
    async with TestServer(app) as target:
        draft = JobDraft(name="a", schedule="@every 1h", target=HttpTarget(url=str(target.make_url("/"))))
        job_id = (await archiving.service.create_job(draft)).job_id
        run = await archiving.wait_for_run(await archiving.service.run_now(job_id), RunState.SUCCEEDED)
    assert run.log_bytes == len(OUTPUT)
    await archiving.wait_until(lambda: b'outcome="uploaded"} 1.0' in archiving.service.metrics_text()[0] or None)
    stored = await archiving.service.run_log(run.run_id, archived=True)
    await asyncio.to_thread(shutil.rmtree, tmp_path / "logs")
    assert stored.output == (await archiving.service.run_log(run.run_id)).output == OUTPUT
    pieces = [piece async for piece in archiving.service.follow_log(run.run_id, attempt=1, offset=5)]
    assert b"".join(piece.data for piece in pieces) == OUTPUT[5:]
    text = archiving.service.metrics_text()[0].decode()
    assert re.search(r"^horae_run_log_uploads_waiting 0.0$", text, re.MULTILINE)
    assert _files_in(tmp_path / "s3" / BUCKET / "prod") == [f"{run.run_id[:6]}/{run.run_id}.1.log.gz"]


def _files_in(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]

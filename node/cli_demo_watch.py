"""The course of `horae demo`: start the nodes, create the jobs, show what happens, clean up whatever the end is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from httpapi.client import Client, ClientError, Refused
from node.cli_demo_jobs import Sink, sample_jobs, serve_sink
from node.cli_demo_nodes import DemoNodes, tail
from node.cli_demo_view import Feed, line, screen

START_TIMEOUT_S = 30.0
POLL_S = 0.5
CALL_TIMEOUT_S = 2.0
"""How long one poll waits for a node; a stopped one must not freeze the screen."""
RUNS_POLLED = 20


class DemoFailed(Exception):
    """The demo could not start; the message has the end of the log that says why."""


class Demo:
    """One showing. `plain` prints lines; else a live screen is drawn."""

    def __init__(self, directory: Path, *, plain: bool) -> None:
        self._plain = plain
        self._feed = Feed()
        self._nodes = DemoNodes(directory=directory, on_change=self._note)
        self._cluster: Mapping[str, Any] | None = None
        self._silent = False
        self._stop = asyncio.Event()

    async def run(self, duration_s: float | None) -> None:
        """From start to clean-up. Raises DemoFailed when the nodes do not come up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        try:
            async with serve_sink(Sink()) as sink, Client(self._nodes.addresses, timeout_s=CALL_TIMEOUT_S) as client:
                await self._nodes.start()
                self._say_hello()
                if await self._wait_ready(client):
                    await self._create_jobs(client, sink)
                    await self._show(client, duration_s)
        finally:
            click.echo("stopping the nodes")
            await self._nodes.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _say_hello(self) -> None:
        for one in self._nodes.nodes:
            click.echo(f"{one.node}  pid {one.pid}  API http://{one.http}")
        click.echo(f"\nexport HORAE_URL={self._nodes.addresses}\n\nwaiting for a quorum …")

    async def _wait_ready(self, client: Client) -> bool:
        """True once a node is ready; False when the user stops first."""
        reason = "no answer yet"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                while not self._stop.is_set():
                    fallen = self._nodes.fallen()
                    if fallen is not None:
                        raise DemoFailed(f"{fallen.node} {fallen.ending}:\n{tail(fallen.log)}")
                    try:
                        await client.ready()
                        return True
                    except ClientError as failure:
                        reason = str(failure)
                    await self._pause(POLL_S)
                return False
        raise DemoFailed(f"no quorum within {START_TIMEOUT_S:g} s ({reason}):\n{tail(self._nodes.nodes[0].log)}")

    async def _create_jobs(self, client: Client, sink: str) -> None:
        for draft in sample_jobs(sink):
            created = await self._create(client, draft)
            self._feed.add_job(created["job_id"], draft["name"])
            click.echo(f"job {draft['name']:<12}  {draft['schedule']:<10}  next run {created['next_run_at']}")
        await self._poll(client)
        click.echo(f"\nkill a node and watch: {self._hint()}\n")

    async def _create(self, client: Client, draft: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a job, again and again while an election goes on (the key makes that safe)."""
        reason = "no answer yet"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                while True:
                    try:
                        return await client.create_job(draft, idempotency_key=f"demo-{draft['name']}")
                    except Refused as refusal:
                        if refusal.status < 500:
                            raise DemoFailed(f"job {draft['name']}: {refusal} {list(refusal.errors)}") from None
                        reason = str(refusal)
                    except ClientError as failure:
                        reason = str(failure)
                    await asyncio.sleep(POLL_S)
        raise DemoFailed(f"job {draft['name']} could not be created within {START_TIMEOUT_S:g} s ({reason})")

    async def _show(self, client: Client, duration_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(duration_s):
                await (self._show_lines(client) if self._plain else self._show_screen(client))

    async def _show_lines(self, client: Client) -> None:
        while not self._stop.is_set():
            for run in await self._poll(client):
                click.echo(line(self._feed, run))
            await self._pause(POLL_S)

    async def _show_screen(self, client: Client) -> None:
        from rich.live import Live

        with Live(refresh_per_second=4) as live:
            while not self._stop.is_set():
                await self._poll(client)
                height = live.console.size.height
                live.update(screen(self._feed, self._nodes.nodes, self._cluster, hint=self._hint(), height=height))
                await self._pause(POLL_S)

    async def _poll(self, client: Client) -> list[Mapping[str, Any]]:
        """What is new since the last poll; nothing while no node answers."""
        runs: list[Mapping[str, Any]] = []
        try:
            self._cluster = await client.cluster(consistency="local")
            for job_id in self._feed.names:
                page = await client.runs(job_id, limit=RUNS_POLLED, consistency="local")
                runs += page["items"]
            self._silent = False
        except ClientError as failure:
            if not self._silent:
                self._note(f"no answer from the cluster: {failure}")
            self._silent = True
        return self._feed.take(runs)

    def _hint(self) -> str:
        leader = (self._cluster or {}).get("leader")
        chosen = next((one for one in self._nodes.nodes if one.node == leader and not one.ending), self._nodes.nodes[0])
        what = "the leader" if chosen.node == leader else chosen.node
        return f"kill -9 {chosen.pid}   ({what}; Ctrl-C here ends the demo)"

    def _note(self, text: str) -> None:
        if self._plain:
            click.echo(f"*** {text}")
        self._feed.add_note(text)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

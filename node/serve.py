"""The composition root of one node: puts log process, runtime and API together, and takes them apart in order.

    started:  settings checked, API port taken, log process, state, runtime, API
    stopped:  runtime drains (the API still answers), API, attempts' connections, log process

Either process dying ends the node: whoever supervises it starts both again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

import uvloop

from executor import WebhookSender, build_executors
from executor.interface import Executor
from executor.owner import Owner
from httpapi.app import build_app
from httpapi.server import BACKLOG, serving
from node.clock import SystemClock
from node.composition import Node, Surroundings, compose
from node.config import ServeSettings, read_secret, socket_path, split_address
from node.log_folder import LogFolder
from node.log_process import COLLECTIONS, command_line
from node.log_records import set_up_logging
from node.log_store import LogStore
from node.runlogs import RunLogs
from node.s3_store import open_store
from node.schedule import pin_tzdata
from node.service import Identity
from raftlog.auth import cluster_id_of
from raftlog.child import start_log_process
from raftlog.client import LogClient
from raftlog.config import MIB, RaftConfig
from raftlog.errors import LogError
from raftlog.process import database_path
from statemachine.reader import StateReader

__all__ = ["ServeSettings", "run_node"]

LOGS_NAME = "logs"
INCARNATION_BYTES = 8
"""Of the name of one start of this node, told apart from those before."""
API_CLOSE_S = 2.0
"""How long requests may still take while the API ends."""

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The node cannot start; the message is the one line that says why."""


class StoppedEarly(Exception):
    """The node was told to stop before it had started."""


class LogProcessEnded(Exception):
    """The log process ended although nobody told it to; its own log says why."""


class NodeBroken(Exception):
    """Something that must never happen has happened; the node ends so that it can be started afresh."""


def run_node(settings: ServeSettings) -> int:
    """Be a node until SIGTERM or SIGINT; returns the exit code (0: left in order, 1: could not start or broke).

    Raises ConfigError for settings that cannot work. Blocks; takes over the signals of the process."""
    settings.validate()
    _log_store(settings)
    read_secret(settings.cluster_secret_file)
    set_up_logging(node=settings.node_id, level=settings.log_level, log_format=settings.log_format)
    gc.set_threshold(*COLLECTIONS)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except StoppedEarly:
        return 0
    except StartError as error:
        logger.critical("%s", error)
        return 1
    except LogProcessEnded as error:
        logger.critical("node %s ends: %s", settings.node_id, error)
        return 1
    except Exception:
        logger.critical("node %s is broken and ends", settings.node_id, exc_info=True)
        return 1
    return 0


async def _serve(settings: ServeSettings) -> None:
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told_to_stop.set)
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(_take_port(settings.http))
        log = await stack.enter_async_context(_log_process(settings, told_to_stop))
        reader = StateReader(str(database_path(settings.data_dir)))
        stack.callback(reader.close)
        executors = _executors(settings)
        stack.push_async_callback(_close_all, list(executors.values()))
        sender = WebhookSender(allow_link_local=settings.allow_link_local)
        stack.push_async_callback(sender.close)
        node = _compose(settings, log, reader, executors, sender)
        app = build_app(node.service, node=settings.node_id, address=settings.http, access_log=settings.access_log)
        await stack.enter_async_context(serving(app, listening, close_s=API_CLOSE_S))
        logger.info("node %s: API on http://%s", settings.node_id, settings.http)
        await _work(node, log, told_to_stop)


async def _work(node: Node, log: LogClient, told_to_stop: asyncio.Event) -> None:
    """Until told to leave, and left; raises when a part breaks."""
    work = asyncio.create_task(node.runtime.run())
    leaving = asyncio.create_task(_leave(node, told_to_stop))
    asyncio.get_running_loop().set_exception_handler(lambda _, context: _break(work, context))
    try:
        await asyncio.wait((work, log.closed), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await log.close()
            raise LogProcessEnded(f"the log process ended ({log.end}); what it logged says why")
        if work.cancelled():
            raise NodeBroken("an error that nobody caught; see above")
        work.result()
    finally:
        leaving.cancel()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await work


async def _leave(node: Node, told_to_stop: asyncio.Event) -> None:
    """A signal may come before there is anything to stop."""
    await told_to_stop.wait()
    node.runtime.stop()


def _break(work: asyncio.Task[None], context: dict[str, object]) -> None:
    """An error that nobody catches is a broken invariant: better a node that restarts than one that limps. What a
    socket or the machine does is none: a client must not be able to end a node by hanging up at the wrong moment."""
    error = _error_of(context)
    if error is None or isinstance(error, OSError):
        logger.warning("%s: %s", context.get("message"), error or "no error given")
        return
    logger.critical("unhandled: %s", context.get("message"), exc_info=error)
    work.cancel()


def _error_of(context: dict[str, object]) -> BaseException | None:
    error = context.get("exception")
    return error if isinstance(error, BaseException) else None


def _executors(settings: ServeSettings) -> dict[str, Executor]:
    owner = Owner(
        cluster=_cluster_id(settings), node=settings.node_id, incarnation=secrets.token_hex(INCARNATION_BYTES)
    )
    return build_executors(
        allow_link_local=settings.allow_link_local,
        allow_commands=settings.allow_commands,
        docker_socket=None if settings.docker_socket is None else socket_path(settings.docker_socket),
        allow_host_network=settings.allow_host_network,
        owner=owner,
    )


def _cluster_id(settings: ServeSettings) -> str:
    return cluster_id_of(read_secret(settings.cluster_secret_file))


def _compose(
    settings: ServeSettings, log: LogClient, reader: StateReader, executors: dict[str, Executor], sender: WebhookSender
) -> Node:
    around = Surroundings(
        log=log,
        reader=reader,
        executors=executors,
        logs=_logs(settings),
        sender=sender,
        clock=SystemClock(),
        random=random.SystemRandom(),
    )
    identity = Identity(
        node=settings.node_id,
        cluster_id=_cluster_id(settings),
        raft_addresses=settings.peers,
        tzdata=pin_tzdata(),
    )
    return compose(
        settings.node_config(),
        around,
        identity,
        version=version("horae"),
        allow_link_local=settings.allow_link_local,
    )


def _logs(settings: ServeSettings) -> RunLogs:
    folder = LogFolder(settings.data_dir / LOGS_NAME, bytes_max=settings.log_mib * MIB)
    return RunLogs(folder, node=settings.node_id, store=_log_store(settings))


def _log_store(settings: ServeSettings) -> LogStore | None:
    """Raises ConfigError."""
    return None if settings.log_store is None else open_store(settings.log_store, settings.log_store_endpoint)


def _take_port(address: str) -> socket.socket:
    """Listen at once, so that a port in use is told before anything else has begun. Raises StartError."""
    host, port = split_address("http", address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise StartError(f"cannot listen for the API on {address}: {error.strerror or error}") from None


@asynccontextmanager
async def _log_process(settings: ServeSettings, told_to_stop: asyncio.Event) -> AsyncIterator[LogClient]:
    """Raises StartError, or StoppedEarly: a supervisor's signal reaches the child too, which may not yet leave it to
    us."""
    try:
        log = await start_log_process(command_line(settings), settings.data_dir, RaftConfig())
    except (LogError, OSError) as error:
        if told_to_stop.is_set():
            raise StoppedEarly from None
        raise StartError(str(error)) from None
    try:
        if told_to_stop.is_set():
            raise StoppedEarly
        yield log
    finally:
        await log.close()


async def _close_all(executors: list[Executor]) -> None:
    for executor in executors:
        await executor.close()

"""Nodes run on uvloop, whose errors and transports differ from asyncio's: what holds must hold on both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from executor.command import CommandExecutor
from executor.http import HttpExecutor
from tests.executor.commands import started
from tests.executor.outputs import KeptOutput


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    made = HttpExecutor()
    yield made
    await made.close()


@pytest.fixture
async def command() -> AsyncIterator[CommandExecutor]:
    made = started()
    yield made
    await made.close()


@pytest.fixture
def output() -> KeptOutput:
    return KeptOutput()

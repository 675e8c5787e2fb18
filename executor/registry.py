"""Which executor runs which kind of target."""

from __future__ import annotations

from executor.http import HttpExecutor
from executor.interface import Executor
from executor.noop import NoopExecutor


def build_executors(*, allow_link_local: bool = False) -> dict[str, Executor]:
    """One executor a target type. They open nothing before their first run; close each one when the node stops."""
    return {"http": HttpExecutor(allow_link_local=allow_link_local), "noop": NoopExecutor()}

"""The state as the node's parts read it: one Protocol each, all served by one snapshot (see state_view.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from node.backfill_steps import BackfillView
from node.deadline_watch import DeadlinesView
from node.duties import DutiesView
from node.sweep import RetentionView
from node.ticker import TickerView
from statemachine.history_records import Notification
from statemachine.records import Job, Run, Session


class ClaimsView(Protocol):
    """What the release timers are rebuilt from."""

    @property
    def applied_index(self) -> int: ...

    def claims_of(self, node: str, incarnation: int) -> Iterable[tuple[str, int]]:
        """(run id, token) of every claim of the session."""
        ...

    def stops_of(self, node: str, incarnation: int) -> Iterable[tuple[str, int]]:
        """Those of them that are to be ended."""
        ...

    def run(self, run_id: str) -> Run | None: ...


class DefinitionView(Protocol):
    """What an attempt is made from."""

    def job_version(self, job_id: str, version: int) -> Job | None:
        """This version of the job, also when it was changed or deleted since."""
        ...

    def run(self, run_id: str) -> Run | None: ...


class OutboxView(Protocol):
    """What is owed to the receivers of notifications."""

    def notifications_until(self, horizon_ms: int) -> Iterable[Notification]:
        """Those that are to be sent up to the horizon, the first first."""
        ...


class StateView(
    TickerView,
    BackfillView,
    DeadlinesView,
    DutiesView,
    ClaimsView,
    DefinitionView,
    OutboxView,
    RetentionView,
    Protocol,
):
    """A snapshot of the state: everything in it is of one applied index."""

    def session(self, node: str) -> Session | None:
        """The node's last session, live or not."""
        ...

    def owned_buckets(self, node: str) -> Mapping[int, int]:
        """The buckets of a node, and their epochs."""
        ...


class StateSource(Protocol):
    def view(self) -> AbstractContextManager[StateView]:
        """A snapshot of the newest committed state of this node; close it soon, it pins pages."""
        ...

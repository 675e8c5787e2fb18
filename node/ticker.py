"""The ticker: turns the ticks of this node's buckets into runs, a few seconds before they are due.

`step(now_ms, view, owned, events) -> TickerStep`. It reads the `due` index up to the look-ahead from where the last
step stopped, so its cost follows what is due and never the number of jobs. What it proposes is a compare-and-set on
the tick that a job stands at: two tickers that both believe they own a job cannot make two runs, and a proposal whose
fate is not known is simply read again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from node.config import COVER_MS
from node.look_ahead import DueCount, LookAhead
from node.misfire import Account, Closed, Ticks, account_ticks
from node.plans import JobSource, Plan, PlanCache
from statemachine.clock import is_off
from statemachine.commands import FIRE_ITEMS_MAX, FIRE_RUNS_MAX, Fire, FireItem, Release

BUCKET_AFTER_ALL = 0xFFFF
"""Sorts behind every bucket: the end of an instant."""
SETTLE_MS = 2_000
"""How long an accepted tick is not read again: the state that this node reads may lag behind the reply it got."""
RETRY_MS = 250
"""How soon a refused or failed proposal is read again."""
ITEMS_A_STEP_MAX = 2 * FIRE_ITEMS_MAX
"""Ticks that one step turns into proposals: about 10 ms of work, then others have their turn."""
BACKLOG_MS = 1_000
"""How long a job that catches up is left alone when enough of its runs wait."""
POISON_MS = 60_000
"""How long a job whose schedule cannot be computed is left alone; it stays in the index and is counted as overdue."""
CLOCK_STEP_MS = 1_000
"""A wall clock that goes back by more was set, not slewed."""
TIMER_AHEAD_MS = 200
"""How far ahead the timers are read, to wake at their very instant."""

logger = logging.getLogger(__name__)


class DueTick(NamedTuple):
    """An entry of the `due` index: the tick that a job stands at. Sorts as its key does."""

    due_ms: int
    bucket: int
    job_id: str
    version: int


class TimerDue(NamedTuple):
    """An entry of the timers: a run that its bucket's owner releases then."""

    at_ms: int
    bucket: int
    run_id: str
    token: int


class TickerView(DueCount, JobSource, Protocol):
    """What the ticker reads, from one snapshot of the state."""

    def due_ticks(self, after: DueTick | None, until_ms: int) -> Iterable[DueTick]:
        """In order, from just behind `after` (None: from the beginning), up to and including `until_ms`."""
        ...

    def timers_until(self, until_ms: int) -> Iterable[TimerDue]:
        """In order, from the beginning, up to and including `until_ms`."""
        ...

    def clock_ms(self) -> int | None:
        """The cluster's clock: what it was at the newest command."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired:
    """What became of a Fire: a code an item, or None when there is no answer."""

    fire: Fire
    codes: Sequence[str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """A Release got its answer (whatever it says, the run has moved on) or none."""

    run_id: str
    token: int
    answered: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Appeared:
    """A tick or timer appeared at an instant that may have been read already."""

    at_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """The buckets were assigned anew: what was passed over may be ours now."""


Memo = dict[tuple[object, ...], tuple[Ticks, Closed | None, Account]]
"""What one step has computed. It holds the ticks and days, too, so that their identity in the key stays theirs."""

TickerEvent = Fired | Released | Appeared | Moved


@dataclass(frozen=True, kw_only=True, slots=True)
class TickerStep:
    """What to propose now, when a timer is due that this step was too early for, and whether this step stopped although
    there is more to do at once."""

    fires: Sequence[Fire]
    releases: Sequence[Release]
    wake_ms: int | None
    more: bool


class Ticker:
    """One node's ticker. `fires_max` and `releases_max` bound what waits for an answer at once."""

    def __init__(
        self,
        *,
        node: str,
        plans: PlanCache,
        look_ahead: LookAhead,
        fires_max: int,
        releases_max: int,
        rescan_every_ms: int,
    ) -> None:
        self._node = node
        self._plans = plans
        self._look_ahead = look_ahead
        self._fires_max = fires_max
        self._releases_max = releases_max
        self._rescan_every_ms = rescan_every_ms
        self._read_to: DueTick | None = None
        self._read_all = False
        self._next_rescan_ms = 0
        self._last_ms = 0
        self._past_ms = 0
        """What was due before this may have been missed: no clock alone decides that, so it is the earlier of this
        node's and the cluster's."""
        self._fires_in_flight = 0
        self._pending: dict[tuple[str, int], int | None] = {}
        self._releasing: dict[tuple[str, int], int | None] = {}

    def step(
        self, now_ms: int, view: TickerView, owned: Mapping[int, int], events: Sequence[TickerEvent] = ()
    ) -> TickerStep:
        """`owned` maps the buckets of this node to their epochs."""
        if now_ms < self._last_ms - CLOCK_STEP_MS:
            self._on_clock_set_back()
        self._last_ms = now_ms
        for event in events:
            self._take(now_ms, event)
        clock_ms = view.clock_ms()
        if is_off(now_ms, clock_ms):
            # This clock is wrong, or the state is of before an outage. Either way the cluster would refuse all of it.
            return TickerStep(fires=(), releases=(), wake_ms=None, more=False)
        self._past_ms = now_ms if clock_ms is None else min(now_ms, clock_ms)
        self._maybe_rescan(now_ms)
        releases, wake_ms = self._releases(now_ms, view, owned)
        fires = self._fires(now_ms, view, owned)
        more = bool(owned) and not self._read_all and self._fires_in_flight < self._fires_max
        return TickerStep(fires=fires, releases=releases, wake_ms=wake_ms, more=more)

    def _take(self, now_ms: int, event: TickerEvent) -> None:
        match event:
            case Fired():
                self._on_fired(now_ms, event)
            case Released():
                self._releasing[event.run_id, event.token] = now_ms + (SETTLE_MS if event.answered else RETRY_MS)
            case Appeared():
                self._read_from(event.at_ms)
            case Moved():
                self._read_to = None

    def _on_fired(self, now_ms: int, event: Fired) -> None:
        self._fires_in_flight -= 1
        codes = event.codes if event.codes is not None else ("no_answer",) * len(event.fire.items)
        for item, code in zip(event.fire.items, codes, strict=True):
            self._pending[item.job_id, item.expected_ms] = now_ms + _settle_ms(item, code)
            if code == "ok" and item.next_ms is not None:
                self._read_from(item.next_ms)
            elif code != "ok":
                self._next_rescan_ms = min(self._next_rescan_ms, now_ms + RETRY_MS)

    def _on_clock_set_back(self) -> None:
        """Every instant kept here is of the old clock: waiting for one could stall the jobs for as long as it
        jumped."""
        self._next_rescan_ms = 0
        self._pending = {key: None for key, until in self._pending.items() if until is None}
        self._releasing = {key: None for key, until in self._releasing.items() if until is None}
        self._look_ahead.probe_now()

    def _read_from(self, at_ms: int) -> None:
        """Make the next step read again from this instant, if it was read already."""
        if self._read_to is not None and at_ms <= self._read_to.due_ms:
            self._read_to = DueTick(at_ms - 1, BUCKET_AFTER_ALL, "", 0)

    def _maybe_rescan(self, now_ms: int) -> None:
        """Forget what has settled and read the whole look-ahead again, once the last reading got to its end."""
        if now_ms < self._next_rescan_ms or not (self._read_all or self._read_to is None):
            return
        self._next_rescan_ms = now_ms + self._rescan_every_ms
        self._read_to = None
        self._pending = _unsettled(self._pending, now_ms)
        self._releasing = _unsettled(self._releasing, now_ms)

    def _fires(self, now_ms: int, view: TickerView, owned: Mapping[int, int]) -> list[Fire]:
        horizon_ms = now_ms + self._look_ahead.reach_ms(now_ms, view)
        room = min((self._fires_max - self._fires_in_flight) * FIRE_ITEMS_MAX, ITEMS_A_STEP_MAX)
        items: list[FireItem] = []
        self._read_all = False
        memo: Memo = {}
        if room > 0 and owned:
            for tick in view.due_ticks(self._read_to, horizon_ms):
                if len(items) >= room:
                    break
                self._read_to = tick
                epoch = owned.get(tick.bucket)
                if epoch is not None and (tick.job_id, tick.due_ms) not in self._pending:
                    item = self._maybe_item(now_ms, horizon_ms, view, tick, epoch, memo)
                    if item is not None:
                        items.append(item)
            else:
                self._read_all = True
        return self._pack(now_ms, items)

    def _maybe_item(
        self,
        now_ms: int,
        horizon_ms: int,
        view: TickerView,
        tick: DueTick,
        epoch: int,
        memo: Memo,
    ) -> FireItem | None:
        self._pending[tick.job_id, tick.due_ms] = None
        try:
            plan = self._plans.plan(view, tick.job_id, tick.version)
            if plan is None:
                self._pending[tick.job_id, tick.due_ms] = now_ms + SETTLE_MS
                return None
            account = _account(plan, tick.due_ms, self._past_ms, horizon_ms + COVER_MS, memo)
        except Exception:
            logger.exception("job %s: its schedule cannot be computed", tick.job_id)
            self._pending[tick.job_id, tick.due_ms] = now_ms + POISON_MS
            return None
        return FireItem(
            job_id=tick.job_id,
            expected_ms=tick.due_ms,
            version=tick.version,
            epoch=epoch,
            runs=account.runs,
            skips=account.skips,
            next_ms=account.next_ms,
        )

    def _pack(self, now_ms: int, items: Sequence[FireItem]) -> list[Fire]:
        fires = [
            Fire(now_ms=now_ms, node=self._node, items=tuple(items[start : start + FIRE_ITEMS_MAX]))
            for start in range(0, len(items), FIRE_ITEMS_MAX)
        ]
        self._fires_in_flight += len(fires)
        return fires

    def _releases(self, now_ms: int, view: TickerView, owned: Mapping[int, int]) -> tuple[list[Release], int | None]:
        releases: list[Release] = []
        in_flight = sum(until is None for until in self._releasing.values())
        for timer in view.timers_until(now_ms + TIMER_AHEAD_MS) if owned else ():
            key = (timer.run_id, timer.token)
            until = self._releasing.get(key, 0)
            if timer.bucket not in owned or until is None or until > now_ms:
                continue
            if timer.at_ms > now_ms:
                return releases, timer.at_ms
            if in_flight + len(releases) >= self._releases_max:
                break
            self._releasing[key] = None
            releases.append(Release(now_ms=now_ms, run_id=timer.run_id, token=timer.token))
        return releases, None


def _account(plan: Plan, due_ms: int, now_ms: int, until_ms: int, memo: Memo) -> Account:
    """Jobs that share a schedule and the rules for it share the computation, too."""
    job = plan.job
    rules = (job.misfire_policy, job.misfire_grace_s, job.misfire_window_s)
    key = (id(plan.ticks), id(plan.closed), due_ms, *rules, plan.jitter_ms)
    known = memo.get(key)
    if known is not None:
        return known[2]
    account = account_ticks(
        plan.ticks,
        job,
        expected_ms=due_ms,
        now_ms=now_ms,
        until_ms=until_ms,
        jitter_ms=plan.jitter_ms,
        runs_max=FIRE_RUNS_MAX,
        closed=plan.closed,
    )
    memo[key] = (plan.ticks, plan.closed, account)
    return account


def _settle_ms(item: FireItem, code: str) -> int:
    if code == "ok":
        return SETTLE_MS
    if code == "backlog":
        return BACKLOG_MS
    if code == "malformed":
        logger.error("the cluster calls this tick malformed: job %s at %d", item.job_id, item.expected_ms)
        return POISON_MS
    return RETRY_MS


def _unsettled(entries: Mapping[tuple[str, int], int | None], now_ms: int) -> dict[tuple[str, int], int | None]:
    return {key: until for key, until in entries.items() if until is None or until > now_ms}

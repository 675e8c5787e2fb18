"""The keeper of this node's session: renews it, and fences the node when it may have lapsed.

The node counts from the FIRST send of the last acknowledged renewal, which is earlier than anything the leader can have
seen of it: whatever the delays, this side gives up before the other side takes over.

    no session --open--> held --(fence)--> held, starting nothing --(kill)--> lapsed --open--> held ...

`step(now_s, events) -> actions`; `now_s` is CLOCK_BOOTTIME, so that a suspended machine wakes up knowing that it
lapsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node.config import ClusterSettings

RENEWALS_IN_FLIGHT_MAX = 4
OPEN_AGAIN_AFTER_S = 0.5
"""How soon a failed opening is tried again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """The answer to an Open: the incarnation it was sent with, and the reply's code."""

    opening: int
    incarnation: int
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFailed:
    """An Open that brought no answer; it may have been applied, which the next one finds out."""

    opening: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewed:
    """The answer to a Renew."""

    incarnation: int
    renewal: int
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RenewFailed:
    """A Renew that brought no answer."""

    incarnation: int
    renewal: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The state machine ended this incarnation."""

    incarnation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """The node is leaving: renewals ask for no further claims from now on."""


SessionEvent = Opened | OpenFailed | Renewed | RenewFailed | Ended | Drain


@dataclass(frozen=True, kw_only=True, slots=True)
class Open:
    """Read the last known incarnation behind a barrier, open the next one, and answer with this `opening`."""

    opening: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Renew:
    incarnation: int
    renewal: int
    draining: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class KillAll:
    """Kill every attempt and forget every claim of this incarnation: another node may have them."""

    incarnation: int
    why: str


SessionAction = Open | Renew | KillAll


class SessionKeeper:
    """Keeps one session after another; starts without one."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self.incarnation: int | None = None
        """The incarnation that this node holds; None while it has none."""
        self.renewal = 0
        """Number of the last renewal that was sent."""
        self.draining = False
        self._opening = 0
        self._opening_sent_s: float | None = None
        self._open_not_before_s = float("-inf")
        self._sent_s: dict[int, float] = {}
        self._last_sent_s = float("-inf")
        self._lease_from_s = float("-inf")

    def may_start(self, now_s: float) -> bool:
        """Whether an attempt may be started at this very instant."""
        return self.incarnation is not None and now_s < self._lease_from_s + self._settings.fence_s

    def next_step_s(self, now_s: float) -> float:
        """When `step` has something to do again, if nothing happens before: later than now, just after a step."""
        if self.incarnation is None and self.draining:
            return float("inf")  # it opens none any more
        if self.incarnation is None:
            return self._open_not_before_s if self._opening_sent_s is None else now_s + OPEN_AGAIN_AFTER_S
        kill_at_s = self._lease_from_s + self._settings.kill_s
        if len(self._sent_s) >= RENEWALS_IN_FLIGHT_MAX:
            return kill_at_s
        return min(self._last_sent_s + self._settings.renew_every_s, kill_at_s)

    def step(self, now_s: float, events: Sequence[SessionEvent] = ()) -> list[SessionAction]:
        """Take in what happened, and say what to do now. Acknowledgements count even when they arrive after the kill
        instant of an older one, if that is still in the future by their own send."""
        actions: list[SessionAction] = []
        was_draining = self.draining
        for event in events:
            actions.extend(self._take(now_s, event))
        if self.incarnation is not None and now_s >= self._lease_from_s + self._settings.kill_s:
            actions.extend(self._lapse(now_s, "no renewal was acknowledged in time"))
        actions.extend(self._maybe_renew(now_s, at_once=self.draining and not was_draining))
        actions.extend(self._maybe_open(now_s))
        return actions

    def _take(self, now_s: float, event: SessionEvent) -> list[SessionAction]:
        match event:
            case Opened():
                self._on_opened(now_s, event)
            case OpenFailed() if event.opening == self._opening:
                self._opening_sent_s = None
                self._open_not_before_s = now_s + OPEN_AGAIN_AFTER_S
            case Renewed() if event.incarnation == self.incarnation:
                return self._on_renewed(now_s, event)
            case RenewFailed() if event.incarnation == self.incarnation:
                self._sent_s.pop(event.renewal, None)
            case Ended() if event.incarnation == self.incarnation:
                return self._lapse(now_s, "the cluster ended the session")
            case Drain():
                self.draining = True
            case _:
                pass
        return []

    def _on_opened(self, now_s: float, event: Opened) -> None:
        if event.opening != self._opening or self._opening_sent_s is None:
            return
        if event.code == "ok":
            self.incarnation = event.incarnation
            self.renewal = 0
            self._sent_s.clear()
            self._lease_from_s = self._last_sent_s = self._opening_sent_s
        else:
            self._open_not_before_s = now_s + OPEN_AGAIN_AFTER_S
        self._opening_sent_s = None

    def _on_renewed(self, now_s: float, event: Renewed) -> list[SessionAction]:
        sent_s = self._sent_s.pop(event.renewal, None)
        if event.code == "ok":
            if sent_s is not None:
                self._lease_from_s = max(self._lease_from_s, sent_s)
            return []
        if event.code == "renewed":
            return []
        return self._lapse(now_s, f"a renewal was refused: {event.code}")

    def _lapse(self, now_s: float, why: str) -> list[SessionAction]:
        assert self.incarnation is not None
        # A newer session ends the older one at once: not before this node has killed what it ran under that.
        self._open_not_before_s = now_s + self._settings.kill_time_s
        killed = KillAll(incarnation=self.incarnation, why=why)
        self.incarnation = None
        self._sent_s.clear()
        self._lease_from_s = float("-inf")
        return [killed]

    def _maybe_renew(self, now_s: float, *, at_once: bool) -> list[SessionAction]:
        if self.incarnation is None or len(self._sent_s) >= RENEWALS_IN_FLIGHT_MAX:
            return []
        if not at_once and now_s < self._last_sent_s + self._settings.renew_every_s:
            return []
        self.renewal += 1
        self._sent_s[self.renewal] = self._last_sent_s = now_s
        return [Renew(incarnation=self.incarnation, renewal=self.renewal, draining=self.draining)]

    def _maybe_open(self, now_s: float) -> list[SessionAction]:
        if self.incarnation is not None or self._opening_sent_s is not None or self.draining:
            return []
        if now_s < self._open_not_before_s:
            return []
        self._opening += 1
        self._opening_sent_s = now_s
        return [Open(opening=self._opening)]

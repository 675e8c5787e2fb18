"""The release timers: every claim starts once, at its time, whatever is lost, doubled, late or taken away."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.timers import (
    DUE_MAX,
    Claimed,
    ClaimKey,
    Due,
    Finished,
    Lapsed,
    Leaving,
    Reconciled,
    ReleaseTimers,
    Stopped,
    Superseded,
)
from statemachine.commands import RunClaimed


def claim(
    run_id: str = "r1",
    *,
    token: int = 1,
    release_ms: int = 1000,
    job_id: str = "j",
    version: int = 1,
    session: int = 1,
    priority: int = 5,
) -> RunClaimed:
    return RunClaimed(
        run_id=run_id,
        job_id=job_id,
        job_version=version,
        session=session,
        token=token,
        attempt=1,
        attempts_max=4,
        priority=priority,
        due_ms=release_ms,
        release_ms=release_ms,
    )


def timers() -> ReleaseTimers:
    made = ReleaseTimers()
    made.open(1)
    return made


def key(of: RunClaimed) -> ClaimKey:
    return ClaimKey(of.run_id, of.token)


def test_a_claim_starts_at_its_release_and_once() -> None:
    """(M22)"""
    held = timers()
    first = claim()
    assert held.step(999, [Claimed(index=1, claim=first)]).start == []
    assert held.next_release_ms() == 1000
    assert held.step(1000).start == [first]
    assert held.step(2000, [Claimed(index=1, claim=first)]).start == []


def test_of_what_is_due_at_once_the_highest_priority_starts_first_then_the_longest_waiting() -> None:
    low, high, older = claim("a", priority=2), claim("b", priority=8), claim("c", priority=2, release_ms=500)
    events = [Claimed(index=1, claim=one) for one in (low, high, older)]
    assert timers().step(1000, events).start == [high, older, low]


def test_a_burst_is_handed_out_in_portions_by_priority() -> None:
    """(M16, M22)"""
    held = timers()
    claims = [claim(f"r{number:04}", priority=number % 3) for number in range(2 * DUE_MAX)]
    first = held.step(1000, [Claimed(index=1, claim=one) for one in claims])
    assert held.next_release_ms() == 1000, "there is more, at once"
    second = held.step(1000)
    assert (len(first.start), len(second.start), len(held.step(1000).start)) == (DUE_MAX, DUE_MAX, 0)
    assert [one.priority for one in (*first.start, *second.start)] == sorted(
        (one.priority for one in claims), reverse=True
    )


def test_a_claim_of_another_session_is_not_ours() -> None:
    assert timers().step(1000, [Claimed(index=1, claim=claim(session=2))]).start == []


def test_an_unstarted_claim_that_is_stopped_is_withdrawn_once_and_a_started_one_is_not() -> None:
    held = timers()
    first, later = claim("a"), claim("b", release_ms=5000)
    assert held.step(1000, [Claimed(index=1, claim=one) for one in (first, later)]).start == [first]
    stops = [Stopped(key=key(one)) for one in (first, later, claim("unknown"))]
    assert held.step(2000, stops).stopped == [later]
    assert held.step(5000, stops) == Due(start=[], superseded=(), stopped=[], given_back=())


def test_after_a_lapse_nothing_that_was_held_starts() -> None:
    held = timers()
    held.step(0, [Claimed(index=1, claim=claim())])
    assert held.step(1000, [Lapsed(incarnation=1)]).start == []
    assert held.session is None and len(held) == 0


def test_the_lapse_of_an_older_session_changes_nothing() -> None:
    held = timers()
    held.open(2)
    one = claim(session=2)
    assert held.step(1000, [Lapsed(incarnation=1), Claimed(index=1, claim=one)]).start == [one]


def test_unstarted_claims_of_a_deleted_job_are_withdrawn_and_started_ones_are_not() -> None:
    held = timers()
    started, waiting, other = claim("a"), claim("b", release_ms=5000), claim("c", release_ms=5000, job_id="k")
    held.step(1000, [Claimed(index=1, claim=one) for one in (started, waiting, other)])
    step = held.step(1001, [Superseded(job_id="j", version=2**53)])
    assert step.superseded == [waiting]
    assert held.step(6000).start == [other]


def test_an_update_withdraws_only_what_older_versions_made() -> None:
    held = timers()
    old, new = claim("a", version=1, release_ms=5000), claim("b", version=2, release_ms=5000)
    held.step(0, [Claimed(index=1, claim=one) for one in (old, new)])
    assert held.step(1, [Superseded(job_id="j", version=2)]).superseded == [old]
    assert held.step(5000).start == [new]


def test_a_leaving_node_gives_back_what_has_not_started_now_and_later() -> None:
    held = timers()
    early, late = claim("a"), claim("b")
    held.step(0, [Claimed(index=1, claim=early)])
    step = held.step(1000, [Leaving()])
    assert (step.given_back, step.start) == ([early], [])
    assert held.step(2000, [Claimed(index=2, claim=late)]).given_back == [late]


def test_a_claim_whose_event_was_lost_is_found_in_the_state() -> None:
    held = timers()
    one = claim()
    assert held.step(1000, [Reconciled(index=5, shown={key(one)}, unknown=[one])]).start == [one]
    assert held.step(1001, [Claimed(index=5, claim=one)]).start == []


def test_a_claim_that_the_state_has_taken_away_does_not_start() -> None:
    held = timers()
    held.step(0, [Claimed(index=3, claim=claim())])
    assert held.step(1000, [Reconciled(index=4, shown=frozenset())]).start == []


def test_a_read_older_than_the_claim_does_not_take_it_away() -> None:
    held = timers()
    one = claim()
    held.step(0, [Claimed(index=5, claim=one)])
    assert held.step(1000, [Reconciled(index=4, shown=frozenset())]).start == [one]


def test_a_finished_claim_that_a_lagging_read_still_shows_does_not_start_again() -> None:
    held = timers()
    one = claim()
    held.step(1000, [Claimed(index=5, claim=one)])
    held.step(1001, [Finished(key=key(one))])
    # Reads from before the claim, from between claim and finish, and from after it.
    for index, shown in ((4, set()), (5, {key(one)}), (6, {key(one)}), (7, set())):
        unknown = [one] if shown and not held.knows(key(one)) else []
        assert held.step(1002, [Reconciled(index=index, shown=shown, unknown=unknown)]).start == []
    assert not held.knows(key(one))


def test_an_older_reconciliation_after_a_newer_one_is_ignored() -> None:
    held = timers()
    one = claim()
    held.step(0, [Reconciled(index=9, shown=frozenset())])
    assert held.step(1000, [Reconciled(index=8, shown={key(one)}, unknown=[one])]).start == []


class Claims(RuleBasedStateMachine):
    """A state that hands out, finishes and takes away claims; a node that hears of it late, twice or never."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ReleaseTimers()
        self.held.open(1)
        self.now_ms = 0
        self.index = 0
        self.tokens: dict[str, int] = {}
        self.state: dict[ClaimKey, RunClaimed] = {}
        self.history: list[dict[ClaimKey, RunClaimed]] = [{}]
        self.undelivered: list[Claimed] = []
        self.read_index = 0
        self.started: list[ClaimKey] = []
        self.unfinished: set[ClaimKey] = set()

    def advance(self) -> None:
        self.index += 1
        self.history.append(dict(self.state))

    def collect(self, *events: Claimed | Finished | Reconciled) -> None:
        for one in self.held.step(self.now_ms, list(events)).start:
            assert one.release_ms <= self.now_ms
            self.started.append(key(one))
            self.unfinished.add(key(one))

    @rule(run=st.sampled_from("abc"), in_ms=st.integers(-5, 50), heard=st.booleans())
    def hand_out(self, run: str, in_ms: int, heard: bool) -> None:
        if any(held.run_id == run for held in self.state):
            return
        self.tokens[run] = self.tokens.get(run, 0) + 1
        made = claim(run, token=self.tokens[run], release_ms=self.now_ms + in_ms)
        self.state[key(made)] = made
        self.advance()
        if heard:
            self.undelivered.append(Claimed(index=self.index, claim=made))

    @precondition(lambda self: self.undelivered)
    @rule(again=st.booleans())
    def deliver(self, again: bool) -> None:
        event = self.undelivered[0] if again else self.undelivered.pop(0)
        self.collect(event)

    @rule(ms=st.integers(0, 30))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.collect()

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(sorted(self.unfinished)))
        self.unfinished.discard(done)
        self.state.pop(done, None)
        self.advance()
        self.collect(Finished(key=done))

    @precondition(lambda self: self.state)
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(sorted(self.state)))
        del self.state[gone]
        self.advance()

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """This node's copy may lag, but never goes back."""
        self.read_index = data.draw(st.integers(self.read_index, self.index))
        view = self.history[self.read_index]
        unknown = [one for one_key, one in view.items() if not self.held.knows(one_key)]
        self.collect(Reconciled(index=self.read_index, shown=view.keys(), unknown=unknown))

    @invariant()
    def no_claim_starts_twice(self) -> None:
        assert len(self.started) == len(set(self.started))

    def teardown(self) -> None:
        """A full read, and time: then everything that the state still shows has been started."""
        self.read_index = self.index
        view = self.history[-1]
        unknown = [one for one_key, one in view.items() if not self.held.knows(one_key)]
        self.collect(Reconciled(index=self.index, shown=view.keys(), unknown=unknown))
        self.now_ms += 1000
        self.collect()
        assert view.keys() <= set(self.started)


TestClaims = Claims.TestCase
TestClaims.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)

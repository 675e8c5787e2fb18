"""All checkers over one history: what was looked at, what was found, and the word about each promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.check_attempts import attempts_are_numbered, late_comers_are_excused, successes_were_seen
from chaos.check_cancels import cancelled_is_over, cancels_are_kept
from chaos.check_changes import CHANGES, old_definitions_start_nothing, paused_starts_nothing
from chaos.check_claims import effects_have_claims, tokens_rise
from chaos.check_clocks import nothing_given_up_early, nothing_starts_early
from chaos.check_deadlines import deadlines_are_enforced, nothing_begins_too_late
from chaos.check_ends import every_call_ends, every_request_ends, every_session_ends
from chaos.check_healing import all_caught_up, backlog_drained, leader_soon, leader_stays
from chaos.check_lateness import RECOVERED_S, lateness_of, rarely_late
from chaos.check_overlap import exclusive_jobs, held_within_room, no_two_at_once, skips_say_why
from chaos.check_quotas import charged_is_held, jobs_hold_no_more, quotas_hold
from chaos.check_reads import (
    indexes_rise,
    names_are_registers,
    one_holder_a_list,
    runs_stay_known,
    same_index_same_answer,
)
from chaos.check_requests import excess_is_refused, keys_answer_once, repeats_are_not_refused
from chaos.check_resources import compared, nothing_leaks
from chaos.check_sessions import deleted_starts_nothing, lapsed_has_killed, lapsed_starts_nothing
from chaos.check_state import (
    WRITES,
    nothing_acknowledged_lost,
    nothing_broke,
    nothing_rests,
    replicas_agree,
    used_up_before_dead,
)
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import Claimed, Finished, Fired, History, QuotaSet, SessionOpened, SessionOver, Truth, Violation
from node.interface import RunState

Checker = Callable[[History], Iterator[Violation]]
Count = Callable[[History], int]
Word = Literal["kept", "broken", "not decided", "not exercised"]

LABEL = re.compile(r"^(I\d+, )*I\d+: ")
"""A docstring names the promises that it is about; the report shows them anyway."""

PROMISES: Mapping[str, str] = {
    "I1": "One run a tick, one call a claim",
    "I2": "No tick is skipped silently",
    "I3": "Tokens rise, and only the current one counts",
    "I4": "Attempted until it succeeds or its attempts are used up",
    "I5": "Nothing acknowledged is lost",
    "I6": "Replicas agree",
    "I7": "What may not run at once does not",
    "I8": "What is deleted, paused, replaced or cancelled starts nothing",
    "I9": "A lapsed node starts nothing and has killed what it ran",
    "I10": "Reads are linearizable; local ones are no older than they say",
    "I11": "Runs start in time",
    "healing": "After the healing all is soon well, and stays so",
    "ends": "Every request, session and call comes to an end",
    "resources": "Nothing leaks",
    "broken": "Nothing breaks: no error that nobody caught, no two leaders in a term",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A checker, the promise that it is for, and how many things of a history it looks at: of nothing, nothing is
    proven."""

    promise: str
    checker: Checker
    looked_at: Count
    noun: str
    """What it looks at, in the plural."""


def _truths(*kinds: type[Truth]) -> Count:
    return lambda history: sum(isinstance(entry, kinds) for entry in history.truth)


def _runs(*states: RunState) -> Count:
    return lambda history: sum(
        not states or run.state in states for state in history.states for run in state.runs.values()
    )


def _operations(*kinds: str) -> Count:
    return lambda history: sum(one.kind in kinds and one.answer == "ok" for one in history.operations)


def _asked(*kinds: str) -> Count:
    """Whatever came of it."""
    return lambda history: sum(one.kind in kinds for one in history.operations)


def _exclusive_runs(history: History) -> int:
    exclusive = exclusive_jobs(history)
    return len({one.run_id for one in history.truth if isinstance(one, Claimed) and one.job_id in exclusive})


def _effects(history: History) -> int:
    return len(history.effects)


CHECKS: tuple[Check, ...] = (
    Check(promise="broken", checker=nothing_broke, looked_at=lambda history: len(history.truth), noun="facts"),
    Check(promise="broken", checker=excess_is_refused, looked_at=_asked("excess"), noun="requests beyond a limit"),
    Check(promise="I1", checker=one_run_a_tick, looked_at=_truths(Fired), noun="firings"),
    Check(promise="I1", checker=effects_have_claims, looked_at=_effects, noun="calls of targets"),
    Check(promise="I2", checker=every_tick_accounted, looked_at=_runs(), noun="runs and skips of all nodes"),
    Check(promise="I2", checker=nothing_given_up_early, looked_at=_truths(Fired), noun="firings"),
    Check(promise="I3", checker=tokens_rise, looked_at=_truths(Claimed, Finished), noun="claims and results"),
    Check(promise="I3", checker=late_comers_are_excused, looked_at=_effects, noun="calls of targets"),
    Check(promise="I4", checker=nothing_rests, looked_at=_runs(), noun="runs and skips of all nodes"),
    Check(promise="I4", checker=deadlines_are_enforced, looked_at=_runs(), noun="runs and skips of all nodes"),
    Check(promise="I4", checker=nothing_begins_too_late, looked_at=_truths(Claimed), noun="claims"),
    Check(promise="I4", checker=used_up_before_dead, looked_at=_runs(RunState.DEAD), noun="dead runs"),
    Check(promise="I4", checker=successes_were_seen, looked_at=_runs(RunState.SUCCEEDED), noun="runs that succeeded"),
    Check(promise="I4", checker=attempts_are_numbered, looked_at=_runs(), noun="runs and skips of all nodes"),
    Check(promise="I5", checker=nothing_acknowledged_lost, looked_at=_operations(*WRITES), noun="acknowledged writes"),
    Check(promise="I5", checker=keys_answer_once, looked_at=_asked("repeat", "misuse"), noun="keys used again"),
    Check(promise="I5", checker=repeats_are_not_refused, looked_at=_asked("repeat"), noun="creates repeated"),
    Check(promise="I6", checker=replicas_agree, looked_at=lambda history: len(history.states), noun="final states"),
    Check(promise="I7", checker=no_two_at_once, looked_at=_exclusive_runs, noun="runs of jobs that allow no overlap"),
    Check(promise="I7", checker=skips_say_why, looked_at=_runs(RunState.SKIPPED), noun="skips"),
    Check(promise="I7", checker=held_within_room, looked_at=_truths(Claimed), noun="claims"),
    Check(promise="I7", checker=quotas_hold, looked_at=_truths(QuotaSet), noun="quotas"),
    Check(promise="I7", checker=jobs_hold_no_more, looked_at=_truths(Claimed), noun="claims"),
    Check(promise="I7", checker=charged_is_held, looked_at=lambda history: len(history.states), noun="final states"),
    Check(promise="I8", checker=cancels_are_kept, looked_at=_operations("cancel"), noun="cancels"),
    Check(promise="I8", checker=cancelled_is_over, looked_at=_operations("cancel"), noun="cancels"),
    Check(promise="I8", checker=deleted_starts_nothing, looked_at=_operations("delete"), noun="deletes"),
    Check(promise="I8", checker=old_definitions_start_nothing, looked_at=_operations(*CHANGES), noun="changes"),
    Check(promise="I8", checker=paused_starts_nothing, looked_at=_operations("pause"), noun="pauses"),
    Check(promise="I9", checker=lapsed_starts_nothing, looked_at=_truths(SessionOver), noun="ends of sessions"),
    Check(promise="I9", checker=lapsed_has_killed, looked_at=_truths(SessionOver), noun="ends of sessions"),
    Check(promise="I10", checker=names_are_registers, looked_at=_operations("read", "list"), noun="reads"),
    Check(promise="I10", checker=one_holder_a_list, looked_at=_operations("list"), noun="lists"),
    Check(promise="I10", checker=indexes_rise, looked_at=_operations("read", "list", "read_run"), noun="reads"),
    Check(promise="I10", checker=same_index_same_answer, looked_at=_operations("read", "list"), noun="reads"),
    Check(promise="I10", checker=runs_stay_known, looked_at=_operations("read_run"), noun="reads of runs"),
    Check(
        promise="I11",
        checker=rarely_late,
        looked_at=lambda history: lateness_of(history, history.healed_s + RECOVERED_S).count,
        noun="starts after the recovery",
    ),
    Check(promise="I11", checker=nothing_starts_early, looked_at=_effects, noun="calls of targets"),
    Check(promise="healing", checker=leader_soon, looked_at=lambda history: len(history.faults), noun="faults"),
    Check(promise="healing", checker=all_caught_up, looked_at=lambda history: len(history.faults), noun="faults"),
    Check(promise="healing", checker=backlog_drained, looked_at=_effects, noun="calls of targets"),
    Check(promise="healing", checker=leader_stays, looked_at=lambda history: len(history.leaders), noun="leaders seen"),
    Check(
        promise="ends",
        checker=every_request_ends,
        looked_at=lambda history: len(history.operations),
        noun="requests",
    ),
    Check(promise="ends", checker=every_session_ends, looked_at=_truths(SessionOpened), noun="sessions"),
    Check(promise="ends", checker=every_call_ends, looked_at=_effects, noun="calls of targets"),
    Check(promise="resources", checker=nothing_leaks, looked_at=compared, noun="samples of afterwards"),
)


def violations_of(history: History) -> list[Violation]:
    return [violation for check in CHECKS for violation in check.checker(history)]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckVerdict:
    says: str
    """What is checked, as the checker's own docstring has it."""
    looked_at: int
    noun: str
    violations: Sequence[Violation]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromiseVerdict:
    promise: str
    title: str
    checks: Sequence[CheckVerdict]

    @property
    def violations(self) -> list[Violation]:
        return [violation for check in self.checks for violation in check.violations]

    @property
    def word(self) -> Word:
        """Kept only if something was looked at, and everything could be decided."""
        if any(violation.decided for violation in self.violations):
            return "broken"
        if self.violations:
            return "not decided"
        return "kept" if any(check.looked_at for check in self.checks) else "not exercised"


def judge(history: History) -> list[PromiseVerdict]:
    """Every promise, in order."""
    verdicts = {promise: PromiseVerdict(promise=promise, title=title, checks=[]) for promise, title in PROMISES.items()}
    checks: dict[str, list[CheckVerdict]] = {promise: [] for promise in PROMISES}
    for check in CHECKS:
        found = list(check.checker(history))
        says = LABEL.sub("", " ".join((check.checker.__doc__ or "").split()))
        one = CheckVerdict(says=says, looked_at=check.looked_at(history), noun=check.noun, violations=found)
        # A checker may find what breaks another promise too: it is told under that one.
        for promise in {check.promise, *(violation.promise for violation in found)}:
            own = [violation for violation in found if violation.promise == promise]
            checks[promise].append(CheckVerdict(says=one.says, looked_at=one.looked_at, noun=one.noun, violations=own))
    return [
        PromiseVerdict(promise=verdict.promise, title=verdict.title, checks=checks[verdict.promise])
        for verdict in verdicts.values()
    ]


def has_passed(verdicts: Sequence[PromiseVerdict]) -> bool:
    """No promise is broken or undecided. What was not exercised is no failure, and the line says so."""
    return not any(verdict.violations for verdict in verdicts)


def one_line(verdicts: Sequence[PromiseVerdict]) -> str:
    """For a terminal and for CI: passed or FAILED, and how many promises of each word, the ones that matter by name."""
    parts = []
    for word in ("broken", "not decided", "kept", "not exercised"):
        named = [verdict.promise for verdict in verdicts if verdict.word == word]
        if named:
            listed = "" if word == "kept" else f" ({', '.join(named)})"
            parts.append(f"{len(named)} {word}{listed}")
    return f"{'passed' if has_passed(verdicts) else 'FAILED'}: of {len(verdicts)} promises {', '.join(parts)}"

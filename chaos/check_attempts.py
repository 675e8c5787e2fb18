"""I3, I4 against the witness: what counts as a success was one, attempts are numbered, and a target that looks at the
tokens needs to refuse nobody but those whom I9 excuses."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Claimed, History, Violation
from node.interface import AttemptOutcome, Job, Run, RunState


def successes_were_seen(history: History) -> Iterator[Violation]:
    """I4: a run that succeeded was answered with success, in the attempt that counts."""
    answered = {(end.run_id, end.token) for end in history.effect_ends if end.how == "succeeded"}
    for state in history.states:
        for run in state.runs.values():
            if run.state is not RunState.SUCCEEDED or not is_witnessed(history, state.jobs.get(run.job_id)):
                continue
            if (run.run_id, run.token) not in answered:
                what = f"{state.node}: run {run.run_id} succeeded under token {run.token}; no target said so"
                yield Violation(promise="I4", what=what)


def is_witnessed(history: History, job: Job | None) -> bool:
    return job is not None and type(job.target).__struct_config__.tag in history.witnessed


def attempts_are_numbered(history: History) -> Iterator[Violation]:
    """I4: the attempts of a run count up from one without a gap, and only the last may have succeeded."""
    for state in history.states:
        for run in state.runs.values():
            flaw = _flaw_of_attempts(run)
            if flaw is not None:
                yield Violation(promise="I4", what=f"{state.node}: run {run.run_id} {flaw}")


def _flaw_of_attempts(run: Run) -> str | None:
    numbers = [attempt.attempt for attempt in run.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        return f"has attempts {numbers}"
    if any(attempt.outcome is AttemptOutcome.SUCCEEDED for attempt in run.attempts[:-1]):
        return "was tried again after a success"
    if run.state is RunState.SUCCEEDED and run.attempts[-1:] and run.attempts[-1].outcome != AttemptOutcome.SUCCEEDED:
        return "succeeded, and its last attempt did not"
    return None


def late_comers_are_excused(history: History) -> Iterator[Violation]:
    """I3: once a target was called under a token, nobody calls it under a lower one, but a node that was stopped
    between its check and its call. (A target that remembers the highest token refuses that one.)"""
    releases = {(one.run_id, one.token): one.release_ms for one in history.truth if isinstance(one, Claimed)}
    highest: dict[str, int] = {}
    for effect in sorted(history.effects, key=lambda one: one.at_s):
        known = highest.get(effect.run_id, 0)
        release_ms = releases.get((effect.run_id, effect.token), 0)
        if effect.token < known and not history.is_torn(effect.node, effect.at_s, release_ms):
            what = f"run {effect.run_id}: {effect.node} called under token {effect.token}, after a call under {known}"
            yield Violation(promise="I3", what=what)
        highest[effect.run_id] = max(known, effect.token)

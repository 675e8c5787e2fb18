"""What is asked of the API in an odd way: a key that was used before, and what is beyond a limit."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import History, Violation

REFUSED = range(400, 500)


def keys_answer_once(history: History) -> Iterator[Violation]:
    """I5: an idempotency key that was acknowledged answers the same again, and nothing else is made under it."""
    for operation in history.operations:
        if operation.answer != "ok":
            continue
        if operation.kind == "misuse":
            what = f"a key that made {operation.earlier} was taken for another job and answered {operation.subject}"
            yield Violation(promise="I5", what=what)
        elif operation.kind == "repeat" and operation.subject != operation.earlier:
            what = f"the key of {operation.earlier} answered {operation.subject} when it was used again"
            yield Violation(promise="I5", what=what)


def repeats_are_not_refused(history: History) -> Iterator[Violation]:
    """I5: nor is such a repeat refused, however late it comes and whatever became of the job."""
    for operation in history.operations:
        if operation.kind == "repeat" and operation.refusal is not None:
            what = f"a repeat of the create of {operation.earlier} was refused: {operation.refusal} {operation.detail}"
            yield Violation(promise="I5", what=what)


def excess_is_refused(history: History) -> Iterator[Violation]:
    """What is beyond a limit is refused, by a status that says that it is the client's fault, and makes nothing."""
    for operation in history.operations:
        if operation.kind != "excess":
            continue
        refused = operation.refusal is not None and operation.refusal in REFUSED
        if operation.answer == "ok" or (operation.refusal is not None and not refused):
            what = f"what is beyond a limit was answered {operation.answer}, {operation.refusal} {operation.detail}"
            yield Violation(promise="broken", what=what)

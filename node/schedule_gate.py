"""The gate: an expression is inside the grammar and comes at all, or is refused with a text that works instead."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from node.schedule_errors import InvalidSchedule
from node.schedule_fields import DAY, MONTH, FieldKind, Hashed, Refused
from node.schedule_grammar import Cron, Every, parse
from node.schedule_pattern import Draw, canonical, pattern_of
from node.schedule_remedies import remedy

EXPRESSIONS_KEPT_MAX = 8192


def read_expression(text: str, index: int | None = None) -> Cron | Every:
    """Reads one expression, `index` being its place in a list. Raises InvalidSchedule."""
    try:
        return accept(text)
    except Refused as refused:
        raise InvalidSchedule(
            field="schedule", index=index, part=refused.part, reason=refused.reason, remedy=remedy(text, _accepted)
        ) from None


@lru_cache(maxsize=EXPRESSIONS_KEPT_MAX)
def accept(text: str) -> Cron | Every:
    """Reads an expression that comes, whichever job it belongs to. Raises Refused."""
    expression = parse(text)
    if isinstance(expression, Cron):
        for draw in _unluckiest_draws(expression):
            if not pattern_of(canonical(expression, draw)).dates.comes():
                raise Refused("this date never comes", DAY.name)
    return expression


def _accepted(text: str) -> bool:
    try:
        accept(text)
    except Refused:
        return False
    return True


def _unluckiest_draws(cron: Cron) -> Iterator[Draw]:
    """Draws of the hashed values that make a date the rarest: a template must not work for some job ids only."""
    month_hashed = any(isinstance(item, Hashed) for item in cron.month.items)
    for late in range(MONTH.last if month_hashed else 1):

        def draw(kind: FieldKind, item: Hashed, late: int = late) -> int:
            if kind is DAY:
                return item.start_last
            return min(item.first + late, item.start_last)

        yield draw

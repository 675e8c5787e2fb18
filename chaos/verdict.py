"""All checkers over one history."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.check_claims import effects_have_claims, tokens_rise
from chaos.check_lateness import rarely_late
from chaos.check_reads import (
    indexes_rise,
    names_are_registers,
    one_holder_a_list,
    runs_stay_known,
    same_index_same_answer,
)
from chaos.check_sessions import deleted_starts_nothing, lapsed_starts_nothing
from chaos.check_state import (
    leader_soon,
    nothing_acknowledged_lost,
    nothing_broke,
    nothing_rests,
    replicas_agree,
    used_up_before_dead,
)
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import History, Violation

Checker = Callable[[History], Iterator[Violation]]

CHECKERS: tuple[Checker, ...] = (
    nothing_broke,
    one_run_a_tick,
    every_tick_accounted,
    tokens_rise,
    effects_have_claims,
    nothing_rests,
    used_up_before_dead,
    nothing_acknowledged_lost,
    replicas_agree,
    deleted_starts_nothing,
    lapsed_starts_nothing,
    leader_soon,
    rarely_late,
    names_are_registers,
    one_holder_a_list,
    indexes_rise,
    same_index_same_answer,
    runs_stay_known,
)


def violations_of(history: History) -> list[Violation]:
    return [violation for checker in CHECKERS for violation in checker(history)]

"""One table for a person, and the same as JSON for a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.figures import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All that one call of the bench has to say."""

    machine: Mapping[str, str]
    settings: Mapping[str, Any]
    figures: Sequence[Figure]

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "figures": [
                {
                    "work": figure.work,
                    "figure": figure.name,
                    "median": figure.median,
                    "min": min(figure.values),
                    "max": max(figure.values),
                    "values": list(figure.values),
                    "must": figure.must,
                    "holds": figure.holds,
                }
                for figure in self.figures
            ],
        }

    def as_table(self) -> Group:
        table = Table(title="horae bench")
        for column in ("work", "figure", "median", "min", "max", "must"):
            table.add_column(column, justify="left" if column in ("work", "figure") else "right")
        for figure in self.figures:
            values = (figure.median, min(figure.values), max(figure.values))
            table.add_row(figure.work, figure.name, *(_number(value) for value in values), _bar(figure))
        where = [Text(f"{name}: {value}", style="dim") for name, value in {**self.machine, **self.settings}.items()]
        return Group(table, *where)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.3f}"


def _bar(figure: Figure) -> str:
    if figure.must is None:
        return ""
    return f"≤ {figure.must:g} {'yes' if figure.holds else 'NO'}"

"""The one refusal of everything that makes up a schedule."""

from __future__ import annotations


class InvalidSchedule(ValueError):
    """A schedule that cannot be kept, told so that its author can mend it. Nothing was changed.

    `field` is the user's name for what is wrong ("schedule", "tz", "run_at", …), `index` which expression of a list,
    `part` the cron field ("hour") if there is one. `remedy` is a value for `field` that works, ready to be pasted."""

    def __init__(
        self, *, field: str, reason: str, remedy: str, index: int | None = None, part: str | None = None
    ) -> None:
        super().__init__(field, reason, remedy, index, part)
        self.field = field
        self.reason = reason
        self.remedy = remedy
        self.index = index
        self.part = part

    def __str__(self) -> str:
        where = self.field if self.index is None else f"{self.field}[{self.index}]"
        return f'{where}: {self.reason}; write "{self.remedy}" instead'


def quoted(text: str, characters_max: int = 40) -> str:
    """User text for a message: printable ASCII, cut to a bearable length."""
    shown = text if len(text) <= characters_max else text[: characters_max - 1] + "…"
    visible = (c if c == "…" or " " <= c <= "~" else f"\\u{ord(c):04x}" for c in shown)
    return '"' + "".join(visible) + '"'

"""The grammar of schedules: text in, checked values out. Whatever crons read differently is refused, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from node.schedule_errors import quoted
from node.schedule_fields import KINDS, Field, Refused, parse_field

EXPRESSION_CHARACTERS_MAX = 512
EVERY_S_MAX = 3660 * 86_400
NICKNAMES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"@every[ \t]+((?:\d{1,9}[smhd])+)", re.ASCII | re.IGNORECASE)
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=", re.ASCII | re.IGNORECASE)


class Cron(NamedTuple):
    """A five-field expression."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def wildcard(self) -> bool:
        """It runs by elapsed time; otherwise at fixed wall times."""
        return self.minute.star or self.hour.star

    @property
    def both_days(self) -> bool:
        """A date must match both day fields; otherwise either is enough."""
        return self.day.star or self.weekday.star


class Every(NamedTuple):
    """`@every`: at multiples of this period since the unix epoch, in no time zone."""

    period_s: int


def parse(text: str) -> Cron | Every:
    """Reads one expression. Raises Refused; dates that never come are not noticed here."""
    check_characters(text)
    text = text.strip(" \t")
    if text.startswith("@"):
        nickname = text.lower()
        if nickname not in NICKNAMES:
            return _parse_every(text)
        text = NICKNAMES[nickname]
    if _ZONE_PREFIX.match(text):
        raise Refused("a zone does not belong into the expression; it has its own field, tz")
    fields = text.split()
    if len(fields) != len(KINDS):
        raise Refused(_wrong_count(len(fields)))
    return Cron(*(parse_field(kind, field_text) for kind, field_text in zip(KINDS, fields, strict=True)))


def check_characters(text: str) -> None:
    """Length and alphabet, before anything else looks at the text."""
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise Refused(f"{len(text)} characters; at most {EXPRESSION_CHARACTERS_MAX} are read")
    if "\n" in text or "\r" in text:
        raise Refused("an expression is one line")
    for character in text:
        if not (" " <= character <= "~" or character == "\t"):
            raise Refused(f"the character {quoted(character)} is not one of ASCII's blanks, digits, letters and signs")


def _parse_every(text: str) -> Every:
    if not text.lower().startswith("@every"):
        raise Refused(_why_no_nickname(text))
    found = _EVERY.fullmatch(text)
    if found is None:
        raise Refused(f"{quoted(text)}: a period is whole numbers with s, m, h or d, such as 90s or 1h30m")
    period_s = sum(int(number) * _UNIT_S[unit] for number, unit in re.findall(r"(\d+)([smhd])", found[1].lower()))
    if not 1 <= period_s <= EVERY_S_MAX:
        raise Refused(f"a period of {period_s} s is not between 1 s and {EVERY_S_MAX // 86_400} days")
    return Every(period_s)


def _wrong_count(fields: int) -> str:
    wanted = "an expression has five fields: minute hour day-of-month month day-of-week"
    if fields in (6, 7):
        disagreement = "crons disagree whether seconds come first or last"
        return f"{fields} fields: {disagreement}; {wanted}; for seconds say @every 10s"
    return f"{fields or 'no'} field{'' if fields == 1 else 's'}; {wanted}"


def _why_no_nickname(text: str) -> str:
    if text.lower() == "@reboot":
        return '"@reboot" has no meaning in a cluster, which does not start with any one machine'
    return f"{quoted(text)} is not a nickname ({' '.join(NICKNAMES)} @every)"

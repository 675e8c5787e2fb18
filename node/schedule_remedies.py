"""What to write instead of an expression that was refused: guesses at what was meant, the likeliest first.

A guess is only a guess until the gate has accepted it, so every remedy works by construction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from node.schedule_field_remedies import mended_field
from node.schedule_fields import KINDS, Refused, parse_field
from node.schedule_grammar import EVERY_S_MAX, EXPRESSION_CHARACTERS_MAX, NICKNAMES

EXAMPLE = "0 2 * * *"
GUESSES_MAX = 16
Accepts = Callable[[str], bool]
_SAYINGS = {
    "@reboot": "@hourly",
    "@secondly": "@every 1s",
    "@minutely": "* * * * *",
    "@every_minute": "* * * * *",
    "@every_second": "@every 1s",
    "@fortnightly": "@every 14d",
    "@biweekly": "@every 14d",
    "@quarterly": "0 0 1 */3 *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
    "@noon": "0 12 * * *",
}
_ZONE_PREFIX = re.compile(r"^(?:CRON_)?TZ=\S*\s*", re.IGNORECASE)
_CRON_LIKE = re.compile(r"[-0-9*?,/#]+|[LWHR]|[A-Za-z]{3}(?:-[A-Za-z]{3})?")
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([a-z]*)")
_AMOUNT_S = {"ms": 0.001, "": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def remedy(text: str, accepts: Accepts) -> str:
    """An expression that `accepts` says works, as near to the refused text as we can tell what was meant."""
    for _, guess in zip(range(GUESSES_MAX), _guesses(text, accepts), strict=False):
        if accepts(guess):
            return guess
    return EXAMPLE


def _guesses(text: str, accepts: Accepts) -> Iterator[str]:
    normal = unicodedata.normalize("NFKC", text[:EXPRESSION_CHARACTERS_MAX])[:EXPRESSION_CHARACTERS_MAX]
    lines = [line for line in map(_plain, re.split(r"[\r\n]+", normal)) if line]
    joined = " ".join(lines)
    if len(lines) > 1 and len(joined.split()) == len(KINDS):
        yield from _line_guesses(joined, accepts)
    for line in lines:
        yield from _line_guesses(line, accepts)


def _plain(line: str) -> str:
    """One line in ASCII. A strange sign stays a (wrong) sign, so that the fields after it keep their places."""
    return _ZONE_PREFIX.sub("", "".join(map(_ascii, line)).strip()).strip()


def _ascii(character: str) -> str:
    if " " <= character <= "~":
        return character
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    return "!" if character.isprintable() else " "


def _line_guesses(line: str, accepts: Accepts) -> Iterator[str]:
    yield line
    fields = line.split()
    if line.startswith("@"):
        yield from _nickname_guesses(line.lower())
        return
    if len(fields) == 1:
        yield "@" + line.lower()
    if len(fields) > len(KINDS):
        yield from _many_fields_guesses(fields, accepts)
    elif len(fields) == len(KINDS):
        yield from _five_fields_guesses(fields)
    elif fields:
        yield " ".join(fields + ["*"] * (len(KINDS) - len(fields)))


def _five_fields_guesses(fields: list[str]) -> Iterator[str]:
    beyond_hour = re.fullmatch(r"\*/(\d{2,6})", fields[0])
    if beyond_hour and int(beyond_hour[1]) > 60 and fields[1:] == ["*"] * 4:
        yield f"@every {int(beyond_hour[1])}m"
    minute, hour, day, month, weekday = (mended_field(kind, field) for kind, field in zip(KINDS, fields, strict=True))
    for days in (f"{day} {month} {weekday}", f"{day} {month} *", f"L {month} {weekday}", f"* {month} {weekday}"):
        yield f"{minute} {hour} {days}"


def _many_fields_guesses(fields: list[str], accepts: Accepts) -> Iterator[str]:
    if not _CRON_LIKE.fullmatch(fields[5]):  # a line of a crontab, with its command
        yield " ".join(fields[:5])
        return
    if len(fields) > 7:
        return
    stepped = re.fullmatch(r"\*/(\d{1,2})", fields[0])
    if fields[1:] == ["*"] * (len(fields) - 1) and (stepped or fields[0] == "*"):
        yield f"@every {int(stepped[1]) if stepped else 1}s"
    if len(fields) == 7:
        if fields[0] in ("0", "00") and fields[6] in ("*", "?"):
            yield " ".join(fields[1:6])
    else:
        yield from _unambiguous_reading(fields, accepts)
    yield "@every 10s"


def _unambiguous_reading(fields: list[str], accepts: Accepts) -> Iterator[str]:
    """The five fields that remain if only one end can be the seconds, and they are a plain 0."""
    readings = [(fields[0], " ".join(fields[1:])), (fields[5], " ".join(fields[:5]))]
    possible = [reading for reading in readings if _are_seconds(reading[0]) and accepts(reading[1])]
    if len(possible) == 1 and possible[0][0] in ("0", "00"):
        yield possible[0][1]


def _are_seconds(text: str) -> bool:
    try:
        parse_field(KINDS[0], text)
    except Refused:
        return False
    return True


def _nickname_guesses(line: str) -> Iterator[str]:
    if line.startswith("@every"):
        yield _SAYINGS.get(line, "")
        yield _every_guess(line.removeprefix("@every"))
        return
    word = line.split()[0]
    yield _SAYINGS.get(word, word)
    yield from get_close_matches(word, NICKNAMES, n=1)
    yield "@daily"


def _every_guess(amounts: str) -> str:
    seconds = 0.0
    for amount, unit in _AMOUNT.findall(amounts):
        seconds += float(amount) * _AMOUNT_S.get(unit, _AMOUNT_S.get(unit[:1], 60.0))
    if not seconds:
        return "@every 1h"
    return "@every " + _period_text(max(1, min(round(seconds), EVERY_S_MAX)))


def _period_text(period_s: int) -> str:
    parts = []
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, period_s = divmod(period_s, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)

"""What to write instead of an expression that was refused: guesses at what was meant, the likeliest first.

A guess is only a guess until the gate has accepted it, so every remedy works by construction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from node.schedule_field_remedies import mended_field
from node.schedule_fields import KINDS, WEEKDAYS, Refused, parse_field
from node.schedule_grammar import EVERY_S_MAX, EXPRESSION_CHARACTERS_MAX, NICKNAMES

EXAMPLE = "0 2 * * *"
GUESSES_MAX = 16
Accepts = Callable[[str], bool]
_SAYINGS = {
    "@reboot": "@hourly",
    "@secondly": "@every 1s",
    "@minutely": "* * * * *",
    "@every month": "@monthly",
    "@every weekday": "0 0 * * 1-5",
    "@every year": "@yearly",
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
_COMMENT = re.compile(r"\s#(?!\d).*$")
_CRON_ITEM = r"(?:[-0-9*?/#()~LWHR]+|[A-Za-z]{3}(?:-[A-Za-z]{3})?(?:#\d|L)?)"
_CRON_LIKE = re.compile(rf"{_CRON_ITEM}(?:,{_CRON_ITEM})*")
_YEARS = re.compile(r"(?:19|20)\d\d\S*")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?(?::\d\d)?([ap]m)?", re.IGNORECASE)
_IN_WORDS = re.compile(r"every (?:\d+ ?)?[a-z]+", re.IGNORECASE)
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([a-z]*)")
_DAY_S = 86_400.0
_AMOUNT_S = {"ms": 0.001, "mo": 30 * _DAY_S, "": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT_S |= {"d": _DAY_S, "w": 7 * _DAY_S, "y": 365 * _DAY_S}


def remedy(text: str, accepts: Accepts) -> str:
    """An expression that `accepts` says works, as near to the refused text as we can tell what was meant."""
    for _, guess in zip(range(GUESSES_MAX), _guesses(text, accepts), strict=False):
        if accepts(guess):
            return guess
    return EXAMPLE


def _guesses(text: str, accepts: Accepts) -> Iterator[str]:
    lines = [line for line in map(_plain, re.split(r"[\r\n]+", text[:EXPRESSION_CHARACTERS_MAX])) if line]
    joined = " ".join(lines)
    if len(lines) > 1 and len(joined.split()) == len(KINDS):
        yield from _line_guesses(joined, accepts)
    for line in lines:
        yield from _line_guesses(line, accepts)


def _plain(line: str) -> str:
    """One line in ASCII. A strange sign stays a (wrong) sign, so that the fields after it keep their places."""
    return _COMMENT.sub("", _ZONE_PREFIX.sub("", "".join(map(_ascii, line)).strip())).strip()


def _ascii(character: str) -> str:
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    if category == "Pd" or character == "\N{MINUS SIGN}":
        return "-"
    digit = unicodedata.decimal(character, None)
    plain = str(digit) if digit is not None else unicodedata.normalize("NFKC", character)
    if len(plain) == 1 and " " <= plain <= "~" and category != "No":  # a raised 2 is no digit of the number before it
        return plain
    if category == "Cf":
        return ""
    return "!" if character.isprintable() else " "


def _line_guesses(line: str, accepts: Accepts) -> Iterator[str]:
    yield line
    fields = line.split()
    if line.startswith("@"):
        yield from _nickname_guesses(line.lower())
        return
    if _IN_WORDS.fullmatch(line):
        yield from _nickname_guesses("@" + line.lower())
    if len(fields) == 1:
        yield "@" + line.lower()
        yield from _clock_guesses(line, ["*"] * 3)
    if len(fields) > len(KINDS):
        yield from _many_fields_guesses(fields, accepts)
    elif len(fields) == len(KINDS):
        yield from _five_fields_guesses(fields)
    elif fields:
        yield " ".join(fields + ["*"] * (len(KINDS) - len(fields)))


def _five_fields_guesses(fields: list[str]) -> Iterator[str]:
    yield from _period_guesses(fields)
    if fields[1] == "*":
        yield from _clock_guesses(fields[0], fields[2:])
    else:
        yield from _clock_guesses(fields[1], fields[2:], minute=fields[0])
    minute, hour, day, month, weekday = (mended_field(kind, field) for kind, field in zip(KINDS, fields, strict=True))
    for days in (f"{day} {month} {weekday}", f"{day} {month} *", f"L {month} {weekday}", f"* {month} {weekday}"):
        yield f"{minute} {hour} {days}"


def _period_guesses(fields: list[str]) -> Iterator[str]:
    """A step beyond its field: "every 90 minutes", "every 36 hours", "every 45 days" are periods."""
    for index, (most, unit) in enumerate([(60, "m"), (24, "h"), (31, "d")]):
        step = re.fullmatch(r"\*/(\d{2,4})", fields[index])
        alone = all(field.isdigit() for field in fields[:index]) and fields[index + 1 :] == ["*"] * (4 - index)
        if step and alone and int(step[1]) > most:
            yield f"@every {int(step[1])}{unit}"


def _clock_guesses(text: str, days: list[str], minute: str = "*") -> Iterator[str]:
    """A time of day where a number belongs: 8:00, 9pm, 17:30."""
    clock = _CLOCK.fullmatch(text)
    if clock is None or not (clock[2] or clock[3]):
        return
    half = (clock[3] or "").lower()
    hour = int(clock[1]) % 12 + 12 * (half == "pm") if half else int(clock[1])
    yield " ".join([str(int(clock[2] or 0)) if minute == "*" else minute, str(hour), *days])


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
        if fields[0] in ("0", "00") and (fields[6] in ("*", "?") or _YEARS.fullmatch(fields[6])):
            yield " ".join(fields[1:6])
    elif _YEARS.fullmatch(fields[5]):  # neither end can be the seconds
        yield " ".join(fields[:5])
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
    word = re.fullmatch(r"\s*([a-z]+)", amounts)
    if word and word[1][:3] in WEEKDAYS:
        return f"0 0 * * {word[1][:3]}"
    if word and word[1][:1] in _AMOUNT_S:
        amounts = f"1{word[1]}"
    seconds = sum(float(amount) * _unit_s(unit) for amount, unit in _AMOUNT.findall(amounts))
    if not seconds:
        return "@every 1h"
    return "@every " + _period_text(max(1, min(round(seconds), EVERY_S_MAX)))


def _unit_s(unit: str) -> float:
    return next((_AMOUNT_S[known] for known in (unit, unit[:2], unit[:1]) if known in _AMOUNT_S), 60.0)


def _period_text(period_s: int) -> str:
    parts = []
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, period_s = divmod(period_s, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)

"""Text that a person will read about an attempt: one line, bounded, printable."""

from __future__ import annotations

DETAIL_CHARS_MAX = 240


def one_line(text: str) -> str:
    """`text` on one line of at most DETAIL_CHARS_MAX printable characters. What a target sends must not break a log
    or a terminal."""
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * DETAIL_CHARS_MAX])
    line = " ".join(printable.split())
    return line if len(line) <= DETAIL_CHARS_MAX else line[: DETAIL_CHARS_MAX - 1] + "…"

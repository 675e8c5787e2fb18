"""What names, teams and labels may look like. Each rule answers what is wrong, or None."""

from __future__ import annotations

import re

LABEL_NAME_LENGTH_MAX = 63
LABEL_VALUE_LENGTH_MAX = 256
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*\Z")


def name_fault(text: str, length_max: int) -> str | None:
    """Free text on one line, as people name their jobs."""
    if not text:
        return "must not be empty"
    if len(text) > length_max:
        return f"is longer than {length_max} characters"
    if text != text.strip():
        return "begins or ends with a blank"
    return _unprintable_fault(text)


def identifier_fault(text: str, length_max: int) -> str | None:
    """A word that can stand in a URL and a metric."""
    if not text:
        return "must not be empty"
    if len(text) > length_max:
        return f"is longer than {length_max} characters"
    if _IDENTIFIER.match(text) is None:
        return "must be letters, digits, _ . - and begin with a letter or digit"
    return None


def label_fault(name: str, value: str) -> str | None:
    if not name or len(name) > LABEL_NAME_LENGTH_MAX or _LABEL_NAME.match(name) is None:
        return (
            f"the label's name must be 1 to {LABEL_NAME_LENGTH_MAX} letters, digits, _ . / - "
            "and begin with a letter or digit"
        )
    if len(value) > LABEL_VALUE_LENGTH_MAX:
        return f"is longer than {LABEL_VALUE_LENGTH_MAX} characters"
    return _unprintable_fault(value) if value else None


def _unprintable_fault(text: str) -> str | None:
    return None if text.isprintable() else "has a control character or line break"

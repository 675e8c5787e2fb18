"""Tags on the command line: NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

import click


def parse_tags(option: str, texts: Iterable[str]) -> dict[str, str]:
    """As a mapping. Raises UsageError naming the option."""
    tags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {text!r}: write NAME=VALUE, such as zone=eu")
        if name in tags:
            raise click.UsageError(f"{option}: the tag {name!r} is there twice")
        tags[name] = value
    return tags

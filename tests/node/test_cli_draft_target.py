"""What `horae job create` makes of its options about the target."""

from __future__ import annotations

from typing import Any

import click
import pytest

from node.cli_draft_target import build_target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"noop": True}, {"type": "noop"}),
        ({"url": "http://a", "method": "get"}, {"type": "http", "url": "http://a", "method": "GET"}),
        ({"image": "a:1"}, {"type": "container", "image": "a:1"}),
        (
            {
                "image": "a:1",
                "command": "sh -c 'echo $HOME; exit'",
                "env": ("A=b=c", "D="),
                "cpu": 0.5,
                "memory_mb": 64,
                "pull": "never",
                "network": "none",
            },
            {
                "type": "container",
                "image": "a:1",
                "command": ["sh", "-c", "echo $HOME; exit"],
                "env": {"A": "b=c", "D": ""},
                "cpu": 0.5,
                "memory_mb": 64,
                "pull": "never",
                "network": "none",
            },
        ),
        (
            {"command": "rsync -a '/in put' /out", "cwd": "/srv", "memory_mb": 64, "cpu_s": 9, "open_files": 64},
            {
                "type": "command",
                "argv": ["rsync", "-a", "/in put", "/out"],
                "cwd": "/srv",
                "memory_mb": 64,
                "cpu_s": 9,
                "open_files": 64,
            },
        ),
    ],
)
def test_options_make_a_target(given: dict[str, Any], target: dict[str, Any]) -> None:
    assert build_target(given) == target


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of --url, --image, --command and --noop"),
        ({"url": "http://a", "image": "a"}, "one of --url, --image, --command and --noop"),
        ({"noop": True, "command": "ls"}, "one of --url, --image, --command and --noop"),
        ({"url": "http://a", "env": ("A=b",)}, "--env belongs to --image or --command"),
        ({"command": "ls", "network": "none"}, "--network belongs to --image"),
        ({"image": "a", "cwd": "/srv"}, "--cwd belongs to --command without --image"),
        ({"image": "a", "cpu_s": 1}, "--cpu-s belongs to --command without --image"),
        ({"image": "a", "header": ("A: b",)}, "--header belongs to --url"),
        ({"command": "echo 'a"}, "--command: cannot be split into words"),
        ({"image": "a", "env": ("A",)}, "write it as NAME=VALUE"),
        ({"url": "http://a", "header": ("A",)}, "Name: value"),
    ],
)
def test_options_that_do_not_belong_together_are_wrong_usage(given: dict[str, Any], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        build_target(given)

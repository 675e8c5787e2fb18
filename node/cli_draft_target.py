"""The options of `horae job create` that say what to run, and the target that they make."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click

TARGET_OPTIONS = (
    click.option("--url", help="Call this URL."),
    click.option("--image", help="Run a container of this image."),
    click.option(
        "--command",
        help="Run this program on a node, or with --image in the container: words as a shell would split them; "
        "nothing else of a shell happens.",
    ),
    click.option("--noop", is_flag=True, help="Do nothing, successfully."),
    click.option("--method", help="With --url. [default: POST]"),
    click.option("--header", multiple=True, help="With --url: 'Name: value'; may be repeated."),
    click.option("--follow-redirects", is_flag=True, help="With --url: follow up to 5; secrets stay with its host."),
    click.option(
        "--signing-secret-file",
        type=click.File("r"),
        help="With --url: sign requests (Standard Webhooks) with the secret in this file; - reads standard input.",
    ),
    click.option("--heartbeat", type=float, help="With --url: how long it may go unheard after it answered 202."),
    click.option("--env", multiple=True, help="With --image or --command: NAME=VALUE; may be repeated."),
    click.option("--memory-mb", type=int, help="With --image or --command: how much it may use, in MiB."),
    click.option("--cpu", type=float, help="With --image: processors that it may keep busy, such as 0.5."),
    click.option("--pull", help="With --image: missing, always or never. [default: missing]"),
    click.option("--network", help="With --image: none, bridge, host or a network's name."),
    click.option("--cwd", help="With --command: the folder to run in. [default: /]"),
    click.option("--cpu-s", type=int, help="With --command: seconds of processor time that it may use."),
    click.option("--open-files", type=int, help="With --command: files that it may have open at once."),
)
_BELONGS = {
    "http": ("method", "header", "follow_redirects", "signing_secret_file", "heartbeat"),
    "container": ("env", "memory_mb", "cpu", "pull", "network"),
    "command": ("env", "memory_mb", "cwd", "cpu_s", "open_files"),
    "noop": (),
}
_OWNERS = {
    "method": "--url",
    "header": "--url",
    "follow_redirects": "--url",
    "signing_secret_file": "--url",
    "heartbeat": "--url",
    "env": "--image or --command",
    "memory_mb": "--image or --command",
    "cpu": "--image",
    "pull": "--image",
    "network": "--image",
    "cwd": "--command without --image",
    "cpu_s": "--command without --image",
    "open_files": "--command without --image",
}


def build_target(given: dict[str, Any]) -> dict[str, Any]:
    """The target of POST /v1/jobs. Checks what only the command line can get wrong; the server judges the rest."""
    kind = _kind(given)
    for name, owner in _OWNERS.items():
        if name in given and name not in _BELONGS[kind]:
            raise click.UsageError(f"--{name.replace('_', '-')} belongs to {owner}.")
    target = {name: given[name] for name in _BELONGS[kind] if name in given}
    if "env" in target:
        target["env"] = dict(map(_variable, target["env"]))
    if "method" in target:
        target["method"] = target["method"].upper()
    if "signing_secret_file" in target:
        target["signing_secret"] = target.pop("signing_secret_file").read().strip()
    if "heartbeat" in target:
        target["heartbeat_s"] = target.pop("heartbeat")
    if "header" in target:
        target["headers"] = dict(map(_header, target.pop("header")))
    return {"type": kind, **_what(kind, given), **target}


def _kind(given: dict[str, Any]) -> str:
    kinds = {"url": "http", "image": "container", "command": "command", "noop": "noop"}
    chosen = [kind for name, kind in kinds.items() if name in given]
    if chosen == ["container", "command"]:
        return "container"
    if len(chosen) != 1:
        raise click.UsageError("Say what to run: one of --url, --image, --command and --noop.")
    return chosen[0]


def _what(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "http":
            return {"url": given["url"]}
        case "container":
            return {"image": given["image"]} | ({"command": _words(given["command"])} if "command" in given else {})
        case "command":
            return {"argv": _words(given["command"])}
        case _:
            return {}


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as fault:
        raise click.UsageError(f"--command: cannot be split into words: {fault}.") from None


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--env {text!r}: write it as NAME=VALUE.")
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"--header {text!r}: write it as 'Name: value'.")
    return name.strip(), value.strip()

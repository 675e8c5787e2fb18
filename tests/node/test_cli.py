"""The command itself: its overview, what it loads, and its exit codes for wrong usage."""

from __future__ import annotations

import errno
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from node.cli import COMMANDS, main
from node.cli_output import cell, show

LOADED_LATE = ("asyncio", "aiohttp", "msgspec", "rich", "lmdb", "pysyncobj", "uvloop", "httpapi", "statemachine")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_the_overview_names_every_command_that_is_there() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in ("dev", "demo", "serve", "job", "run", "cluster"):
        assert f"  {name} " in result.output
        assert COMMANDS[name].summary in result.output


def test_every_command_has_an_example_in_its_help() -> None:
    for path, command in [((), main), *commands(main)]:
        result = CliRunner().invoke(main, [*path, "--help"])
        assert result.exit_code == 0, path
        assert "horae " + " ".join(path) in result.output.split("Example", 1)[1], path
        assert command.help, path


@pytest.mark.parametrize("arguments", [["--help"], ["job", "--help"], ["job", "create", "--help"], ["--version"]])
def test_help_loads_no_library_but_click(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from node.cli import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        f"sys.exit(', '.join(name for name in {LOADED_LATE!r} if name in sys.modules) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_command_that_is_not_built_yet_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "later", COMMANDS["job"]._replace(module="node.cli_later"))
    assert "later" not in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, ["later"]).exit_code == 2


@pytest.mark.parametrize("name", [name for name in COMMANDS if importlib.util.find_spec(COMMANDS[name].module)])
def test_the_table_of_commands_leads_to_commands(name: str) -> None:
    module = importlib.import_module(COMMANDS[name].module)
    assert isinstance(getattr(module, COMMANDS[name].attribute), click.Command)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jub", "list"], "Did you mean 'job'?"),
        (["job", "create"], "--name"),
        (["job", "create", "--name", "a", "--noop"], "either --schedule or --run-at"),
        (["job", "create", "--name", "a", "--schedule", "@daily", "--run-at", "2030-01-01T00:00Z"], "either"),
        (["job", "create", "--name", "a", "--schedule", "@daily"], "one of --url, --image, --command and --noop"),
        (
            ["job", "create", "--name", "a", "--schedule", "@daily", "--noop", "--method", "PUT"],
            "--method belongs to --url",
        ),
        (["job", "create", "--name", "a", "--schedule", "@daily", "--url", "http://a", "--header", "b"], "Name: value"),
        (["job", "create", "--name", "a", "--schedule", "@daily", "--noop", "--args", "{"], "--args: this is not JSON"),
        (["job", "create", "--name", "a", "-f", "-"], "leave out --name"),
        (["job", "list", "--limit", "0"], "--limit"),
        (["job", "list", "--server", "ftp://a"], "is not an address"),
        (["job", "list", "-o", "yaml"], "yaml"),
        (["run", "list"], "JOB"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_do(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("arguments", [["job", "show", "a\udcff"], ["job", "create", "--name", "\udcff", "--noop"]])
def test_an_argument_that_is_no_text_is_wrong_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "is not text in UTF-8" in result.output


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_answer_that_cannot_be_printed_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", FullDisk())
    with pytest.raises(click.ClickException, match="No space left"):
        show({"a": 1}, "table", str)


def test_a_command_whose_output_was_closed_still_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    show({"a": 1}, None, str)


def test_a_table_never_cuts_the_id_of_a_run() -> None:
    longest = f"{0:012x}-{'0' * 26}-m{'0' * 26}"
    assert cell(longest) == longest

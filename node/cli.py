"""The `horae` command. Only click is imported here: a command's module is loaded when that command runs, so that
`horae --help` and `horae schedule preview` start at once."""

from __future__ import annotations

import node.quiet_interrupt  # noqa: F401 (it acts by being imported, before anything that takes time)

# isort: split

import importlib
import importlib.util
from difflib import get_close_matches
from typing import NamedTuple

import click


class LazyCommand(NamedTuple):
    """Where a command lives, and what the overview says about it (so that it need not be loaded for that)."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "dev": LazyCommand("node.cli_dev", "dev", "Run one node on loopback, ready to play with."),
    "demo": LazyCommand("node.cli_demo", "demo", "Watch three nodes run sample jobs; kill one."),
    "serve": LazyCommand("node.cli_serve", "serve", "Run one node of a cluster."),
    "job": LazyCommand("node.cli_job", "job", "Create, list, show, run and delete jobs."),
    "run": LazyCommand("node.cli_run", "run", "List and show runs, and read their logs."),
    "backfill": LazyCommand("node.cli_backfill", "backfill", "Backfills of jobs: list and cancel them."),
    "calendar": LazyCommand("node.cli_calendar", "calendar", "Named days on which jobs do not run."),
    "team": LazyCommand("node.cli_team", "team", "What teams may use: quotas, weights, limits."),
    "schedule": LazyCommand("node.cli_schedule", "schedule", "What a schedule means (needs no server)."),
    "cluster": LazyCommand("node.cli_cluster", "cluster", "The cluster's nodes and leader."),
    "bench": LazyCommand("node.cli_bench", "bench", "Measure three nodes that are started for it."),
    "chaos": LazyCommand("node.cli_chaos", "chaos", "Break a cluster on purpose, and judge what held."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported one by one, when they are asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [name for name, command in COMMANDS.items() if importlib.util.find_spec(command.module) is not None]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        command = getattr(importlib.import_module(COMMANDS[name].module), COMMANDS[name].attribute)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        for text in arguments:
            if not _is_text(text):
                raise click.UsageError(f"The argument {text!a} is not text in UTF-8.", context)
        return super().parse_args(context, arguments)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(context)])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0] if arguments else ""
        if not name.startswith("-") and self.get_command(context, name) is None:
            near = get_close_matches(name, self.list_commands(context), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {name!r}.{hint}", context)
        return super().resolve_command(context, arguments)


def _is_text(argument: str) -> bool:
    """Bytes that are no text reach us as surrogates, which neither JSON nor a URL can carry."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="horae", prog_name="horae")
def main() -> None:
    """A distributed cron that never loses a tick.

    Commands that talk to a cluster take its addresses from HORAE_URL (or --server); several are separated by commas and
    tried in turn. They exit with 0 (done), 1 (refused), 2 (wrong usage) or 3 (unreachable, or no quorum).

    \b
    Examples:
      horae demo
      horae dev
      horae job create --name hello --schedule '@every 5s' --noop
      horae run list hello
    """


if __name__ == "__main__":
    main()

"""`horae serve`: one node of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node.cli_tags import parse_tags
from node.cli_targets import target_options
from node.config import (
    AHEAD_DEFAULT,
    CONTAINER_SLOTS_DEFAULT,
    LOG_FORMATS,
    LOG_LEVELS,
    LOG_MIB_DEFAULT,
    RAFT_LOG_MIB_DEFAULT,
    RAFT_LOG_MIB_MAX,
    RUNS_KEEP_DAYS_DEFAULT,
    SLOTS_DEFAULT,
    ConfigError,
    ServeSettings,
)


def parse_peers(context: click.Context, parameter: click.Parameter, text: str) -> dict[str, str]:
    """'n1=host:port,n2=host:port' as a mapping, in order."""
    peers: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        node, equals, address = part.partition("=")
        if not equals or not node or not address:
            raise click.BadParameter(f"{part!r}: write NODE=HOST:PORT, separated by commas")
        if node in peers:
            raise click.BadParameter(f"{node!r} is there twice")
        peers[node] = address
    if not peers:
        raise click.BadParameter("names no node; write NODE=HOST:PORT, separated by commas")
    return peers


@click.command()
@click.option(
    "--data-dir",
    envvar="HORAE_DATA_DIR",
    show_envvar=True,
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where this node keeps its log and state.",
)
@click.option(
    "--node-id", envvar="HORAE_NODE_ID", show_envvar=True, required=True, help="This node's name among --peers."
)
@click.option(
    "--http", envvar="HORAE_HTTP", show_envvar=True, default="127.0.0.1:8101", show_default=True, help="API address."
)
@click.option(
    "--raft",
    envvar="HORAE_RAFT",
    show_envvar=True,
    default="127.0.0.1:7101",
    show_default=True,
    help="Where the other nodes reach this one.",
)
@click.option(
    "--peers",
    envvar="HORAE_PEERS",
    show_envvar=True,
    required=True,
    callback=parse_peers,
    help="Every member's raft address, this one's too: n1=HOST:PORT,n2=HOST:PORT,n3=HOST:PORT",
)
@click.option(
    "--cluster-secret-file",
    envvar="HORAE_CLUSTER_SECRET_FILE",
    show_envvar=True,
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The same 16 bytes or more on every node.",
)
@click.option(
    "--bootstrap", envvar="HORAE_BOOTSTRAP", show_envvar=True, is_flag=True, help="The very first start of a cluster."
)
@click.option(
    "--worker",
    envvar="HORAE_WORKER",
    show_envvar=True,
    is_flag=True,
    help="Only run what the members fire: no member, no vote. --peers names the members, --raft is not used.",
)
@click.option(
    "--insecure",
    envvar="HORAE_INSECURE",
    show_envvar=True,
    is_flag=True,
    help="Listen elsewhere than on loopback although there are no API tokens yet.",
)
@click.option(
    "--allow-link-local",
    envvar="HORAE_ALLOW_LINK_LOCAL",
    show_envvar=True,
    is_flag=True,
    help="Let jobs call link-local addresses, such as a cloud's metadata service. The same on every node.",
)
@target_options
@click.option(
    "--callback-url",
    envvar="HORAE_CALLBACK_URL",
    show_envvar=True,
    help="Where targets that complete attempts themselves reach the API. [default: http:// and --http]",
)
@click.option(
    "--slots",
    envvar="HORAE_SLOTS",
    show_envvar=True,
    type=click.IntRange(1),
    default=SLOTS_DEFAULT,
    show_default=True,
    help="Attempts that run here at once.",
)
@click.option(
    "--container-slots",
    envvar="HORAE_CONTAINER_SLOTS",
    show_envvar=True,
    type=click.IntRange(0),
    default=CONTAINER_SLOTS_DEFAULT,
    show_default=True,
    help="Of the slots, those for containers.",
)
@click.option(
    "--command-slots",
    envvar="HORAE_COMMAND_SLOTS",
    show_envvar=True,
    type=click.IntRange(0),
    help="Of the slots, those for commands. [default: all]",
)
@click.option(
    "--tag",
    "tags",
    envvar="HORAE_TAGS",
    show_envvar=True,
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda context, parameter, texts: parse_tags("--tag", texts),
    help="What this node has; jobs with run_on ask for it. May be repeated.",
)
@click.option(
    "--ahead",
    envvar="HORAE_AHEAD",
    show_envvar=True,
    type=click.IntRange(0),
    default=AHEAD_DEFAULT,
    show_default=True,
    help="Claims that are held ahead of their time.",
)
@click.option(
    "--keep-days",
    envvar="HORAE_KEEP_DAYS",
    show_envvar=True,
    type=click.FloatRange(0, 3650),
    default=RUNS_KEEP_DAYS_DEFAULT,
    show_default=True,
    help="How long runs stay in the history, if neither job nor team says. The same on every node.",
)
@click.option(
    "--raft-log-mib",
    envvar="HORAE_RAFT_LOG_MIB",
    show_envvar=True,
    type=click.IntRange(1, RAFT_LOG_MIB_MAX),
    default=RAFT_LOG_MIB_DEFAULT,
    show_default=True,
    help="How much of the replicated log is kept; a node that was away for longer gets a copy of the state.",
)
@click.option(
    "--log-mib",
    envvar="HORAE_LOG_MIB",
    show_envvar=True,
    type=click.IntRange(1),
    default=LOG_MIB_DEFAULT,
    show_default=True,
    help="What the logs of runs may take of this node's disk; beyond it the oldest go.",
)
@click.option(
    "--log-store",
    envvar="HORAE_LOG_STORE",
    show_envvar=True,
    metavar="s3://BUCKET/PREFIX",
    help="Where the logs of ended attempts go, too; with credentials as for any AWS client. [default: nowhere]",
)
@click.option(
    "--log-store-endpoint",
    envvar="HORAE_LOG_STORE_ENDPOINT",
    show_envvar=True,
    metavar="URL",
    help="The server of --log-store, when it is not AWS.",
)
@click.option(
    "--log-level",
    envvar="HORAE_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(LOG_LEVELS),
    default="info",
    show_default=True,
    help="The least severe lines that are logged.",
)
@click.option(
    "--log-format",
    envvar="HORAE_LOG_FORMAT",
    show_envvar=True,
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="How lines are logged.",
)
@click.option(
    "--access-log",
    envvar="HORAE_ACCESS_LOG",
    show_envvar=True,
    is_flag=True,
    help="Log a line for each request to the API, at level info.",
)
def serve(**options: Any) -> None:
    """Run one node of a cluster. SIGTERM drains it: it hands over, finishes or gives back what it holds, and leaves.

    \b
    Example (on each of three machines, with its own --node-id and addresses):
      horae serve --data-dir /var/lib/horae --node-id n1 --http 10.0.0.1:8101 --raft 10.0.0.1:7101 \\
          --peers n1=10.0.0.1:7101,n2=10.0.0.2:7101,n3=10.0.0.3:7101 \\
          --cluster-secret-file secret --bootstrap --insecure
    \b
    Example (more machines to run jobs on; they come and go without touching the quorum):
      horae serve --worker --data-dir /var/lib/horae --node-id w1 --http 10.0.0.4:8101 \\
          --peers n1=10.0.0.1:7101,n2=10.0.0.2:7101,n3=10.0.0.3:7101 --cluster-secret-file secret --insecure
    """
    run(options)


def run(options: dict[str, Any]) -> None:
    """Serve until told to stop, then exit. Settings that cannot work are wrong usage (exit code 2)."""
    from node.serve import run_node

    try:
        code = run_node(ServeSettings(**options))
    except ConfigError as fault:
        raise click.UsageError(str(fault)) from None
    raise SystemExit(code)

"""`horae cluster`: its nodes, its leader, and another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from node.cli_call import call, server_option
from node.cli_output import Json, fields, output_option, show, table

if TYPE_CHECKING:
    from httpapi.client import Client


@click.group()
def cluster() -> None:
    """The cluster's nodes and leader.

    \b
    Example:
      horae cluster status
    """


@cluster.command()
@click.argument("node", required=False)
@server_option
@output_option
def transfer(node: str | None, server: str, output: str | None) -> None:
    """Hand the leadership to NODE, or to the node that has most of the log.

    It costs the cluster a moment instead of an election: useful before the leader's machine is worked on.

    \b
    Examples:
      horae cluster transfer n2
      horae cluster transfer
    """

    async def work(client: Client) -> Json:
        return await client.transfer_leadership(to=node)

    show(call(server, work), output, lambda answer: f"node {answer['leader']} leads")


@cluster.command()
@click.option("--local", is_flag=True, help="What the node that answers knows, without asking a majority.")
@server_option
@output_option
def status(server: str, output: str | None, local: bool) -> None:
    """Show leader, term, applied index and every node.

    \b
    Examples:
      horae cluster status
      horae cluster status --local -o json
    """

    async def work(client: Client) -> Json:
        return await client.cluster(consistency="local" if local else "linearizable")

    show(call(server, work), output, _cluster)


def _cluster(view: Json) -> str:
    head = fields([(name, value) for name, value in view.items() if name != "nodes"])
    columns = (
        *("NODE", "ROLE", "LIVE", "HTTP", "RAFT", "BUCKETS", "RUNNING", "SLOTS", "APPLIED", "SKEW S", "DISK"),
        "VERSION",
    )
    rows = [
        (
            *(one["node"], one["role"], "yes" if one["live"] else "no", one["http"], one["raft"], one["buckets"]),
            *(one["running"], one["slots"], one["applied_index"], one["skew_s"]),
            *("low" if one["disk_low"] else "ok", one["version"]),
        )
        for one in view["nodes"]
    ]
    return f"{head}\n\n{table(columns, rows)}"

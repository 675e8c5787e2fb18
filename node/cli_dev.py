"""`horae dev`: one node on loopback, without a flag to think about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from node.cli_targets import target_options
from node.config import LOG_LEVELS

SECRET_BYTES = 32
HTTP_PORT = 8101
RAFT_PORT = 7101


@click.command()
@click.option(
    "--data-dir",
    envvar="HORAE_DATA_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep jobs and runs. [default: horae/dev in the user's state directory]",
)
@click.option("--http", envvar="HORAE_HTTP", help="API address. [default: 127.0.0.1:8101, or a free port]")
@click.option(
    "--log-level",
    envvar="HORAE_LOG_LEVEL",
    type=click.Choice(LOG_LEVELS),
    default="warning",
    show_default=True,
    help="The least severe lines that are logged.",
)
@target_options
def dev(data_dir: Path | None, http: str | None, log_level: str, **targets: Any) -> None:
    """Run one node on loopback, ready to play with. What it is told stays in its data directory.

    \b
    Example:
      horae dev
      horae job create --name hello --schedule '@every 5s' --noop     # in another terminal
    """
    from node.cli_serve import run

    directory = state_directory() if data_dir is None else data_dir
    options = dev_options(directory, http)
    click.echo(f"API   http://{options['http']}\ndata  {directory}\n")
    click.echo(f"In another terminal:\n  export HORAE_URL=http://{options['http']}")
    click.echo("  horae job create --name hello --schedule '@every 5s' --noop\n  horae run list hello\n")
    click.echo("Ctrl-C stops it; the data stays.")
    run(options | {"log_level": log_level} | targets)


def dev_options(directory: Path, http: str | None) -> dict[str, Any]:
    """Settings of a cluster of one. Writes its secret at the first start."""
    directory.mkdir(parents=True, exist_ok=True)
    raft = f"127.0.0.1:{free_port(RAFT_PORT)}"
    return {
        "data_dir": directory / "n1",
        "node_id": "n1",
        "http": http or f"127.0.0.1:{free_port(HTTP_PORT)}",
        "raft": raft,
        "peers": {"n1": raft},
        "cluster_secret_file": ensure_secret(directory / "secret"),
        "bootstrap": not (directory / "n1").exists(),
    }


def state_directory() -> Path:
    """Where programs keep what should outlive a restart (XDG Base Directory)."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "horae" / "dev"


def ensure_secret(path: Path) -> Path:
    """The secret file, made when it is not there; nobody else may ever read it, so it is born with mode 0600."""
    import secrets

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(SECRET_BYTES))
    return path


def free_port(preferred: int) -> int:
    """`preferred` when nothing listens there, else one that the system picks."""
    import socket

    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise click.ClickException("There is no free port on 127.0.0.1.")

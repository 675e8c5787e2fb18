"""How commands call the API: the address option, the loop, and errors as sentences with exit codes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from node.cli_output import clean
from node.identifiers import ULID_LENGTH

if TYPE_CHECKING:
    from httpapi.client import Client, Refused

T = TypeVar("T")

DEFAULT_SERVER = "http://127.0.0.1:8101"

server_option = click.option(
    "--server",
    envvar="HORAE_URL",
    default=DEFAULT_SERVER,
    show_default=True,
    show_envvar=True,
    help="Addresses of the API, separated by commas; tried in turn.",
)


class CallRefused(click.ClickException):
    """The cluster refused the call."""

    exit_code = 1


class NoAnswer(click.ClickException):
    """No node answered, or none could reach a majority."""

    exit_code = 3


def call(server: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client. Raises CallRefused or NoAnswer with a message for people."""
    import asyncio

    from httpapi.client import BadAddress, Client, ClientError, NoQuorum, Refused

    async def with_client() -> T:
        async with Client(server) as client:
            return await work(client)

    try:
        return asyncio.run(with_client())
    except BadAddress as fault:
        raise click.UsageError(str(fault)) from None
    except NoQuorum as fault:
        raise NoAnswer(_with_outcome(clean(str(fault)), fault)) from None
    except Refused as fault:
        raise CallRefused(_with_outcome(_refusal(fault), fault)) from None
    except ClientError as fault:
        message = f"No node answers ({fault}).\nIs one running? `horae dev` starts one; HORAE_URL says where they are."
        raise NoAnswer(_with_outcome(message, fault)) from None


def _refusal(fault: Refused) -> str:
    lines = [clean(str(fault))]
    lines += [f"  {clean(str(one.get('path') or 'body'))}: {clean(str(one.get('message')))}" for one in fault.errors]
    return "\n".join(lines)


def _with_outcome(message: str, fault: Any) -> str:
    if fault.definite:
        return message
    return f"{message}\nIt may have happened: repeat the command with the same --idempotency-key, or look first."


def looks_like_an_id(text: str) -> bool:
    return text.isalnum() and len(text) == ULID_LENGTH


async def find_job(client: Client, text: str, team: str | None) -> dict[str, Any]:
    """The job with that id, or else that name (in `team`, when one is given). Raises CallRefused."""
    from httpapi.client import Refused

    if looks_like_an_id(text):
        try:
            return await client.job(text)
        except Refused as refusal:
            if refusal.status != 404:
                raise
    found = [job async for job in client.all_jobs(team=team, q=text) if job["name"] == text]
    if len(found) == 1:
        return found[0]
    if found:
        teams = ", ".join(sorted(clean(job["team"]) for job in found))
        raise CallRefused(f"Several teams have a job named {clean(text)} ({teams}); say which with --team.")
    where = "" if team is None else f" in team {clean(team)}"
    raise CallRefused(f"There is no job with the id or name {clean(text)}{where}.")

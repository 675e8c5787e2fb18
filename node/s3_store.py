"""A LogStore on S3, or on anything that speaks its protocol: `pip install 'horae[s3]'`.

Credentials come from where object stores' clients look for them: AWS_ACCESS_KEY_ID and the like, web identities, the
metadata services of containers and machines. They are never logged, and no error repeats what a server says of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from node.config import LOG_STORE, ConfigError, check_log_store
from node.log_store import StoreError

if TYPE_CHECKING:
    from obstore.store import S3Store

CONNECT_S, REQUEST_S = 3, 20
"""A log is a megabyte at most: what takes longer is broken."""
RETRIES_MAX = 2
"""Of the client itself, for a server that is busy; what fails after them is tried again later by whoever asked."""
REGION_DEFAULT = "us-east-1"
"""What servers other than AWS expect to be signed for, when AWS_REGION says nothing."""
ERROR_LENGTH_MAX = 200


def open_store(address: str, endpoint: str | None) -> S3LogStore:
    """The store at 's3://bucket/prefix', at AWS unless `endpoint` says where. Asks nobody yet. Raises ConfigError."""
    check_log_store(address, endpoint)
    found = LOG_STORE.match(address)
    assert found is not None, "it was checked"
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ConfigError("log-store: needs the extra 's3'; install it with: pip install 'horae[s3]'") from None
    return S3LogStore(
        S3Store(
            found["bucket"],
            prefix=(found["prefix"] or "").strip("/") or None,
            client_options={
                "allow_http": endpoint is not None and endpoint.startswith("http:"),
                "connect_timeout": timedelta(seconds=CONNECT_S),
                "timeout": timedelta(seconds=REQUEST_S),
            },
            retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=REQUEST_S)},
            **_where(endpoint),
        )
    )


def _where(endpoint: str | None) -> dict[str, Any]:
    return {} if endpoint is None else {"endpoint": endpoint.rstrip("/"), "region": _region()}


def _region() -> str:
    import os

    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION_DEFAULT


class S3LogStore:
    """Implements LogStore."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    async def put(self, key: str, data: bytes) -> None:
        try:
            await self._store.put_async(key, data, attributes={"Content-Type": "application/gzip"})
        except Exception as error:  # the library's tree of errors has no root of its own
            raise StoreError(_one_line(error)) from None

    async def get(self, key: str) -> bytes | None:
        try:
            found = await self._store.get_async(key)
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise StoreError(_one_line(error)) from None

    async def delete(self, keys: Sequence[str]) -> None:
        try:
            await self._store.delete_async(list(keys))
        except FileNotFoundError:
            return
        except Exception as error:
            raise StoreError(_one_line(error)) from None


def _one_line(error: Exception) -> str:
    """Its first line, without the server's answer: that repeats what was signed."""
    line = str(error).partition("\n")[0].partition("<")[0].strip().rstrip(":")
    return line[:ERROR_LENGTH_MAX] or type(error).__name__

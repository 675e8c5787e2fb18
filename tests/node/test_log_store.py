"""Every LogStore keeps the same promises, the one in memory and the one on a real S3 server (M20)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from node.config import ConfigError, check_log_store
from node.log_store import LogStore, StoreError
from node.s3_store import open_store
from tests.node.object_stores import ACCESS_KEY, BUCKET, SECRET_KEY, MemoryStore, s3_server

LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, credentials: None) -> LogStore:
    if request.param == "memory":
        return MemoryStore()
    return open_store(f"s3://{BUCKET}/{request.node.name.partition('[')[0]}/", request.getfixturevalue("endpoint"))


async def test_what_was_put_is_got_back_byte_for_byte(store: LogStore) -> None:
    await store.put("0193f2/a.1.log.gz", LARGE)
    await store.put("0193f2/a.2.log.gz", b"")
    assert await store.get("0193f2/a.1.log.gz") == LARGE
    assert await store.get("0193f2/a.2.log.gz") == b""


async def test_putting_again_takes_the_place_of_what_was_there(store: LogStore) -> None:
    await store.put("k", b"one")
    await store.put("k", b"two")
    assert await store.get("k") == b"two"


async def test_what_is_not_there_is_none_and_deleting_it_does_no_harm(store: LogStore) -> None:
    assert await store.get("never") is None
    await store.put("k", b"one")
    await store.delete(["k", "never"])
    await store.delete(["k"])
    assert await store.get("k") is None


async def test_prefixes_keep_stores_in_one_bucket_apart(endpoint: str, credentials: None) -> None:
    ones, others = (open_store(f"s3://{BUCKET}/{prefix}", endpoint) for prefix in ("ones", "others"))
    await ones.put("k", b"x")
    assert (await others.get("k"), await open_store(f"s3://{BUCKET}", endpoint).get("ones/k")) == (None, b"x")


@pytest.mark.parametrize("trouble", ["wrong secret", "no such bucket", "nobody there"])
async def test_a_store_that_does_not_work_says_so_in_one_line_without_secrets(
    endpoint: str, credentials: None, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    if trouble == "wrong secret":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY + "x")
    bucket = "another-bucket" if trouble == "no such bucket" else BUCKET
    store = open_store(f"s3://{bucket}", "http://127.0.0.1:1" if trouble == "nobody there" else endpoint)
    with pytest.raises(StoreError) as error:
        await store.put("k", b"x")
    message = str(error.value)
    assert message and "\n" not in message and "<" not in message
    assert SECRET_KEY not in message and ACCESS_KEY not in message


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("", None),
        ("bucket", None),
        ("https://bucket", None),
        ("s3://", None),
        ("s3://UPPER", None),
        ("s3://key:secret@bucket", None),
        ("s3://bucket/a b", None),
        ("s3://bucket", "127.0.0.1:9000"),
        ("s3://bucket", "http://user:secret@host"),
        ("s3://bucket", "ftp://host"),
    ],
)
def test_what_is_no_address_of_a_store_is_refused(address: str, endpoint: str | None) -> None:
    with pytest.raises(ConfigError, match="must be like") as refused:
        check_log_store(address, endpoint)
    assert "secret" not in str(refused.value)

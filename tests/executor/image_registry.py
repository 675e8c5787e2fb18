"""A registry with one image, as much of one as an engine pulls from; engines take loopback ones without TLS."""

import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.docker_engine import image_layer
from tests.executor.fake_engine import hanging

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class ImageRegistry:
    """Serves `host/report:1`, and `host/slow:1` whose layer never comes."""

    def __init__(self) -> None:
        layer = image_layer()
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["echo", "pulled"]}}
        told = json.dumps(config | {"rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}).encode()
        self.blobs = {digest_of(blob): blob for blob in (packed, told)}
        self.manifests = {"report": manifest_of(told, packed), "slow": manifest_of(told, b"never sent")}
        self.host = ""
        self.pulls = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        match request.path.split("/")[2:]:
            case [name, "manifests", tag] if self._has(name, tag):
                self.pulls += tag == "1"
                headers = {"Docker-Content-Digest": digest_of(self.manifests[name])}
                return web.Response(body=self.manifests[name], content_type=MANIFEST, headers=headers)
            case [_, "blobs", digest] if digest in self.blobs:
                return web.Response(body=self.blobs[digest])
            case ["slow", "blobs", _]:
                return await hanging(request)
            case [""]:
                return web.Response()
            case _:
                return web.json_response({"errors": [{"code": "NAME_UNKNOWN", "message": "no such image"}]}, status=404)

    def _has(self, name: str, tag: str) -> bool:
        return name in self.manifests and tag in ("1", digest_of(self.manifests[name]))


def manifest_of(config: bytes, layer: bytes) -> bytes:
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": digest_of(config)},
            "layers": [{"mediaType": LAYER, "size": len(layer), "digest": digest_of(layer)}],
        }
    ).encode()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@asynccontextmanager
async def image_registry() -> AsyncIterator[ImageRegistry]:
    registry = ImageRegistry()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", registry.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    registry.host = f"127.0.0.1:{runner.addresses[0][1]}"
    yield registry
    await runner.cleanup()

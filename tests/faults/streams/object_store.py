"""An S3 object store that can be stopped and restarted: a Lakebed server at a fixed address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.clients.boto import connected
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, start_server

_BUCKET: Final = "bytes"


class ObjectStoreServer:
    """The store: settings for its clients, and control over its process."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._port = free_port()
        self._server = start_server(data, workers=1, port=self._port)
        with connected(self._server) as s3:
            s3.create_bucket(Bucket=_BUCKET)

    @property
    def flags(self) -> list[str]:
        """The settings of a server that uses this store."""
        settings = {
            "kind": "s3",
            "s3.bucket": _BUCKET,
            "s3.endpoint": self._server.endpoint,
            "s3.allow_http": "true",
            "s3.access_key_id": ROOT_ACCESS_KEY,
        }
        return [f"--set=storage.{name}={value}" for name, value in settings.items()]

    @property
    def environment(self) -> dict[str, str]:
        """The secret settings."""
        return {"LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": ROOT_SECRET_KEY}

    def stop(self) -> None:
        """Kill the server."""
        self._server.kill()

    def restart(self) -> None:
        """Start the server again with its data."""
        self._server = start_server(self._data, workers=1, port=self._port)

    def end(self) -> None:
        if self._server.process.poll() is None:
            self._server.kill()


@contextmanager
def object_store(data: Path) -> Iterator[ObjectStoreServer]:
    """A store for the duration of a block."""
    store = ObjectStoreServer(data)
    try:
        yield store
    finally:
        store.end()

"""An S3 byte store that goes away and comes back: a server of ours, killed and started again at one address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.clients.boto import connected
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, start_server

_BUCKET: Final = "bytes"


class ByteStore:
    """The store."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._port = free_port()
        self._server = start_server(data, workers=1, port=self._port)
        with connected(self._server) as s3:
            s3.create_bucket(Bucket=_BUCKET)

    @property
    def flags(self) -> list[str]:
        """What a server is told to keep its bytes there."""
        said = {
            "kind": "s3",
            "s3.bucket": _BUCKET,
            "s3.endpoint": self._server.endpoint,
            "s3.allow_http": "true",
            "s3.access_key_id": ROOT_ACCESS_KEY,
        }
        return [f"--set=storage.{name}={value}" for name, value in said.items()]

    @property
    def environment(self) -> dict[str, str]:
        """The same, of what is secret."""
        return {"LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": ROOT_SECRET_KEY}

    def go(self) -> None:
        """Be away."""
        self._server.kill()

    def come_back(self) -> None:
        """Be there again, with all there was."""
        self._server = start_server(self._data, workers=1, port=self._port)

    def end(self) -> None:
        if self._server.process.poll() is None:
            self._server.kill()


@contextmanager
def byte_store(data: Path) -> Iterator[ByteStore]:
    """A store for the time of a block."""
    store = ByteStore(data)
    try:
        yield store
    finally:
        store.end()

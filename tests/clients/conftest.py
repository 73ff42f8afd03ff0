"""Fixtures of the client tests: root's boto3 client, new buckets, a large file."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.clients.boto import Connect, connected
from tests.clients.contract import LargeFile
from tests.clients.tls import TlsServer, make_certificate, running_tls_server
from tests.fixtures.server import RunningServer

MIB = 1024 * 1024


@pytest.fixture(scope="session")
def s3(lakebed_server: RunningServer) -> Iterator[Any]:
    """boto3 as root: the client of most tests, and the check of what another client did."""
    with connected(lakebed_server) as client:
        yield client


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Creates further clients, closed after the test."""
    with ExitStack() as stack:

        def make(server: RunningServer, *arguments: Any, **options: Any) -> Any:  # Any: forwarded
            return stack.enter_context(connected(server, *arguments, **options))

        yield make


@pytest.fixture
def new_name() -> str:
    """A unique bucket name; the bucket does not exist yet."""
    return f"bucket-{uuid.uuid4().hex[:20]}"


@pytest.fixture
def bucket(s3: Any, new_name: str) -> str:  # Any: a boto3 client
    """A new bucket."""
    s3.create_bucket(Bucket=new_name)
    return new_name


@pytest.fixture(scope="session")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """A server that serves TLS only."""
    folder = tmp_path_factory.mktemp("tls")
    certificate = make_certificate(folder)
    with running_tls_server(folder / "data", certificate) as server:
        yield TlsServer(server, certificate.certificate)


@pytest.fixture(autouse=True)
def _no_request_crashes(lakebed_server: RunningServer) -> Iterator[None]:
    """No request of a client makes a handler crash: a crash would be in the server log."""
    before = len(lakebed_server.log_text())
    yield
    log = lakebed_server.log_text()[before:]
    assert "Traceback" not in log, log


@pytest.fixture(scope="session")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> LargeFile:
    """64 MiB without repetition, so that parts in the wrong order are detected."""
    path = tmp_path_factory.mktemp("large") / "large.bin"
    source, digest = random.Random(64), hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(64):
            piece = source.randbytes(MIB)
            digest.update(piece)
            file.write(piece)
    return LargeFile(path, 64 * MIB, digest.hexdigest())

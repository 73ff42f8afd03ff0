"""Fixtures of the tests of Polaris' command line: a separate server, root, a base location, and a catalog."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.boto import connected, root_keys
from tests.clients.iceberg.federated import HOSTS
from tests.fixtures.polaris_cli import find_or_install_polaris
from tests.fixtures.server import RunningServer, running_server

from .cli import Polaris


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, so that listings have only what these tests created."""
    with running_server(tmp_path_factory.mktemp("polaris") / "data", workers=2, **{HOSTS: "127.0.0.1"}) as running:
        yield running
        assert "Traceback" not in running.log_text(), running.log_text()[-4000:]


@pytest.fixture
def polaris(server: RunningServer, tmp_path: Path) -> Polaris:
    """As root."""
    return Polaris(find_or_install_polaris(), server, tmp_path, root_keys(server))


@pytest.fixture
def base(server: RunningServer) -> str:
    """A base location for a catalog."""
    bucket = f"bucket-{uuid.uuid4().hex[:16]}"
    with connected(server) as s3:
        s3.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/quickstart"


@pytest.fixture
def catalog(polaris: Polaris, base: str) -> str:
    """A new catalog."""
    name = f"catalog_{uuid.uuid4().hex[:8]}"
    polaris.run("catalogs", "create", "--storage-type", "s3", "--default-base-location", base, name)
    return name

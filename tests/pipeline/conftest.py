"""Fixtures: one table bucket, a namespace per test, and Spark with vended credentials."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.core.settings import PipelineDelegation
from tests.clients.boto import connected, root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer
from tests.pipeline.bench import Bench, new_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.stream_tables import StreamBench


@pytest.fixture(scope="session")
def lake(lakebed_server: RunningServer) -> Lake:
    """A table bucket for all tests, which use different namespaces."""
    return new_lake(lakebed_server)


@pytest.fixture(scope="session")
def s3(lakebed_server: RunningServer) -> Iterator[Any]:  # Any: a boto3 client
    """boto3 as root, to inspect files."""
    with connected(lakebed_server) as client:
        yield client


@pytest.fixture
def namespace(lake: Lake) -> str:
    """A namespace with a unique name."""
    name = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [name]})
    return name


@pytest.fixture(scope="session")
def engineer(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with all table permissions and none in S3, who depends on vended credentials."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("engineer"), "s3tables:*")


@pytest.fixture(scope="session")
def bench(spark: SparkSession, lake: Lake, engineer: User) -> Bench:
    """Spark with vended credentials only."""
    return new_bench(spark, lake, engineer.keys)


@pytest.fixture(scope="session")
def signed_bench(spark: SparkSession, lake: Lake, engineer: User) -> Bench:
    """Spark with remote signing, without storage credentials."""
    return new_bench(spark, lake, engineer.keys, PipelineDelegation.SIGNED)


@pytest.fixture(scope="session")
def root_bench(spark: SparkSession, lake: Lake) -> Bench:
    """Spark as root, who can also read objects outside tables."""
    return new_bench(spark, lake, root_keys(lake.server))


@pytest.fixture(scope="session")
def stream_bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamBench]:
    """Spark as root, with streams and a table bucket of another server."""
    # Imported here: only few tests need pyfluss and the data source.
    from lakebed.pipeline.streams.source import StreamSource
    from tests.clients.streams.serving import running_streams
    from tests.pipeline.stream_tables import StreamBench

    with running_streams(tmp_path_factory.mktemp("streams") / "data") as streams:
        spark.dataSource.register(StreamSource)
        yield StreamBench(new_bench(spark, new_lake(streams.server), root_keys(streams.server)), streams)

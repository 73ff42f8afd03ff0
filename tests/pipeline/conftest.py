"""Fixtures of the pipeline's tests: one table bucket, a namespace of one's own in it, Spark with vended keys alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.core.settings import PipelineDelegation
from tests.clients.boto import connected, root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.people import User, user_who_may
from tests.fixtures.server import RunningServer
from tests.pipeline.bench import Bench, new_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.stream_tables import StreamBench


@pytest.fixture(scope="session")
def lake(lakebed_server: RunningServer) -> Lake:
    """A table bucket for all tests; they keep apart by namespaces."""
    return new_lake(lakebed_server)


@pytest.fixture(scope="session")
def s3(lakebed_server: RunningServer) -> Iterator[Any]:  # Any: a boto3 client
    """boto3 as root: the witness of what files there are."""
    with connected(lakebed_server) as client:
        yield client


@pytest.fixture
def namespace(lake: Lake) -> str:
    """A namespace that nobody else has."""
    name = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [name]})
    return name


@pytest.fixture(scope="session")
def engineer(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who may do everything with tables, and has no rights in S3: what files he sees, he is given."""
    return user_who_may(lakebed_server, tmp_path_factory.mktemp("engineer"), "s3tables:*")


@pytest.fixture(scope="session")
def bench(spark: SparkSession, lake: Lake, engineer: User) -> Bench:
    """Spark with keys that the catalog hands out, and no others."""
    return new_bench(spark, lake, engineer.keys)


@pytest.fixture(scope="session")
def signed_bench(spark: SparkSession, lake: Lake, engineer: User) -> Bench:
    """Spark without keys to files: the catalog signs its requests."""
    return new_bench(spark, lake, engineer.keys, PipelineDelegation.SIGNED)


@pytest.fixture(scope="session")
def root_bench(spark: SparkSession, lake: Lake) -> Bench:
    """Spark as root, who may also read what is no table's."""
    return new_bench(spark, lake, root_keys(lake.server))


@pytest.fixture(scope="session")
def stream_bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamBench]:
    """Spark as root, with the streams and a table bucket of a server of their own."""
    # Not above: pyfluss and the data source are for few of the tests.
    from lakebed.pipeline.streams.source import StreamSource
    from tests.clients.streams.serving import running_streams
    from tests.pipeline.stream_tables import StreamBench

    with running_streams(tmp_path_factory.mktemp("streams") / "data") as streams:
        spark.dataSource.register(StreamSource)
        yield StreamBench(new_bench(spark, new_lake(streams.server), root_keys(streams.server)), streams)

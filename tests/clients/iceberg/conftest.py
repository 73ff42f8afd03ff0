"""Fixtures of the catalog's client tests: one table bucket, a namespace of one's own in it, the ways in."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import root_keys
from tests.clients.iceberg.engine import HELD, SIGNED, VENDED, VENDED_BY_ALIAS, Engine, new_engine
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.trino import HELD as HELD_BY_TRINO
from tests.clients.iceberg.trino import VENDED as VENDED_TO_TRINO
from tests.clients.iceberg.trino import TrinoCatalog, new_catalog
from tests.clients.people import User, user_who_may
from tests.fixtures.server import RunningServer
from tests.fixtures.trino import TrinoServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def lake(lakebed_server: RunningServer) -> Lake:
    """A table bucket for all tests; they keep apart by namespaces."""
    return new_lake(lakebed_server)


@pytest.fixture(scope="session")
def catalog(lake: Lake) -> Iterator[RestCatalog]:
    """PyIceberg as root."""
    with lake.catalog() as catalog:
        yield catalog


@pytest.fixture
def namespace(lake: Lake) -> str:
    """A namespace that nobody else has."""
    name = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [name]})
    return name


# -- people -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def engineer(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who may do everything with tables, and has no rights in S3: what files he sees, he is given."""
    return user_who_may(lakebed_server, tmp_path_factory.mktemp("engineer"), "s3tables:*")


@pytest.fixture(scope="session")
def analyst(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who may read tables, and has no rights in S3."""
    return user_who_may(lakebed_server, tmp_path_factory.mktemp("analyst"), "s3tables:Get*", "s3tables:List*")


@pytest.fixture(scope="session")
def insider(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who may do everything with tables and in S3: whose own keys open files."""
    return user_who_may(lakebed_server, tmp_path_factory.mktemp("insider"), "s3tables:*", "s3:*")


# -- Spark --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def vended(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """Spark with keys that the catalog hands out."""
    return new_engine(spark, lake, VENDED, engineer.keys)


@pytest.fixture(scope="session")
def vended_by_alias(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """The same by the alias of S3 Tables clients, signed in that service's name."""
    return new_engine(spark, lake, VENDED_BY_ALIAS, engineer.keys)


@pytest.fixture(scope="session")
def signed(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """Spark without keys: the catalog signs its requests for files."""
    return new_engine(spark, lake, SIGNED, engineer.keys)


@pytest.fixture(scope="session")
def held(spark: SparkSession, lake: Lake) -> Engine:
    """Spark with keys of its own, which are root's."""
    return new_engine(spark, lake, HELD, root_keys(lake.server))


@pytest.fixture
def own_signatures(spark: SparkSession) -> Iterator[None]:
    """All catalogs of a Java process ask for signatures as the first of them did, and others come by other means."""
    _forget_who_asked(spark)
    yield
    _forget_who_asked(spark)


def _forget_who_asked(spark: SparkSession) -> None:
    java = spark._jvm
    assert java is not None
    client = (
        java.java.lang.Thread.currentThread()
        .getContextClassLoader()
        .loadClass("org.apache.iceberg.aws.s3.signer.S3V4RestSignerClient")
    )
    manager = client.getDeclaredField("authManager")
    manager.setAccessible(True)
    manager.set(None, None)


@pytest.fixture(params=["vended", "signed", "held"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Spark, each way in after the other."""
    found: Engine = request.getfixturevalue(request.param)
    return found


# -- Trino --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def trino(trino_server: TrinoServer, lake: Lake, engineer: User) -> TrinoCatalog:
    """Trino with keys that the catalog hands out, and none of its own that open files."""
    return new_catalog(trino_server, lake, engineer.keys, VENDED_TO_TRINO)


@pytest.fixture(scope="session")
def trino_held(trino_server: TrinoServer, lake: Lake) -> TrinoCatalog:
    """Trino with keys of its own, which are root's."""
    return new_catalog(trino_server, lake, root_keys(lake.server), HELD_BY_TRINO)


@pytest.fixture(params=["trino", "trino_held"])
def each_trino(request: pytest.FixtureRequest) -> TrinoCatalog:
    """Trino, each way in after the other."""
    found: TrinoCatalog = request.getfixturevalue(request.param)
    return found

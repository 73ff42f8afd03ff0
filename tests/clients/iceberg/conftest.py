"""Fixtures of the catalog's client tests: a table bucket, a new namespace in it, users, and engines."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import root_keys
from tests.clients.iceberg.engine import SIGNED, STATIC, VENDED, VENDED_BY_ALIAS, Engine, new_engine
from tests.clients.iceberg.external_lake import ExternalLake, running_external_lake
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.trino import STATIC as STATIC_IN_TRINO
from tests.clients.iceberg.trino import VENDED as VENDED_TO_TRINO
from tests.clients.iceberg.trino import TrinoCatalog, new_catalog
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer
from tests.fixtures.trino import TrinoServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def lake(lakebed_server: RunningServer) -> Lake:
    """A table bucket shared by all tests, each in a separate namespace."""
    return new_lake(lakebed_server)


@pytest.fixture(scope="session")
def catalog(lake: Lake) -> Iterator[RestCatalog]:
    """PyIceberg as root."""
    with lake.catalog() as catalog:
        yield catalog


@pytest.fixture
def namespace(lake: Lake) -> str:
    """A new namespace."""
    name = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [name]})
    return name


# -- users --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def engineer(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with every table permission and no S3 permission, who depends on access delegation for files."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("engineer"), "s3tables:*")


@pytest.fixture(scope="session")
def analyst(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user that may read tables, without S3 permissions."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("analyst"), "s3tables:Get*", "s3tables:List*")


@pytest.fixture(scope="session")
def insider(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with every table and S3 permission, whose own access key opens files."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("insider"), "s3tables:*", "s3:*")


# -- Spark --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def vended(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """Spark with vended credentials."""
    return new_engine(spark, lake, VENDED, engineer.keys)


@pytest.fixture(scope="session")
def vended_by_alias(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """The same through the alias for S3 Tables clients, signed for the service name `s3tables`."""
    return new_engine(spark, lake, VENDED_BY_ALIAS, engineer.keys)


@pytest.fixture(scope="session")
def signed(spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """Spark without credentials for files: remote signing."""
    return new_engine(spark, lake, SIGNED, engineer.keys)


@pytest.fixture(scope="session")
def static(spark: SparkSession, lake: Lake) -> Engine:
    """Spark with root's access key for files."""
    return new_engine(spark, lake, STATIC, root_keys(lake.server))


@pytest.fixture
def own_signatures(spark: SparkSession) -> Iterator[None]:
    """Reset Iceberg's signer client, which uses the authentication of a JVM's first catalog for all catalogs."""
    _reset_signer_client(spark)
    yield
    _reset_signer_client(spark)


def _reset_signer_client(spark: SparkSession) -> None:
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


@pytest.fixture(params=["vended", "signed", "static"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Spark in each access mode."""
    found: Engine = request.getfixturevalue(request.param)
    return found


# -- Trino --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def trino(trino_server: TrinoServer, lake: Lake, engineer: User) -> TrinoCatalog:
    """Trino with vended credentials, and without its own credentials for files."""
    return new_catalog(trino_server, lake, engineer.keys, VENDED_TO_TRINO)


@pytest.fixture(scope="session")
def trino_static(trino_server: TrinoServer, lake: Lake) -> TrinoCatalog:
    """Trino with root's access key for files."""
    return new_catalog(trino_server, lake, root_keys(lake.server), STATIC_IN_TRINO)


@pytest.fixture(params=["trino", "trino_static"])
def each_trino(request: pytest.FixtureRequest) -> TrinoCatalog:
    """Trino in each access mode."""
    found: TrinoCatalog = request.getfixturevalue(request.param)
    return found


# -- external storage ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalLake]:
    """A server with catalogs over a MinIO."""
    with running_external_lake(tmp_path_factory.mktemp("external")) as lake:
        yield lake


@pytest.fixture(scope="session")
def external_user(external: ExternalLake, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user of that server with every table permission, and none on S3."""
    return user_with_actions(external.server, tmp_path_factory.mktemp("user"), "s3tables:*")

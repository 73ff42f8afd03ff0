"""Clients of the demo's server: boto3, the Lakebed client, and DuckDB on a table bucket."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakebed.client import LakebedClient
from lakebed.core.errors import PipelineUnavailable


def boto3_client(service: str, endpoint: str, keys: Mapping[str, str]) -> Any:  # Any: boto3 has no types
    """A boto3 client; `keys` are its keyword arguments."""
    import boto3

    return boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", **keys)


def client_with(endpoint: str, keys: Mapping[str, str]) -> LakebedClient:
    """A client of the demo's server, with keys in boto3's form."""
    return LakebedClient(
        endpoint,
        access_key_id=keys["aws_access_key_id"],
        secret_access_key=keys["aws_secret_access_key"],
        region="us-east-1",
    )


def missing_for_spark() -> str:
    """Why Spark cannot run on this machine, and what to do about it; empty if it can."""
    from lakebed.pipeline.spark.java import find_java

    try:
        find_java()
    except PipelineUnavailable as error:
        return str(error)
    return ""


@contextmanager
def duckdb_on(endpoint: str, keys: Mapping[str, str], warehouse: str) -> Iterator[Any]:
    """A DuckDB connection with the tables as `lake.NAMESPACE.TABLE`."""
    # Any: DuckDB is imported at run time only.
    import duckdb

    # Extensions come from their packages: nothing is fetched.
    config: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with duckdb.connect(config=config) as duck:
        for name in ("avro", "httpfs", "iceberg"):
            duck.execute(f"LOAD '{_extension(name, duckdb.__version__)}'")
        key, secret = _text(keys["aws_access_key_id"]), _text(keys["aws_secret_access_key"])
        host = _text(endpoint.removeprefix("http://"))
        duck.execute(
            f"CREATE SECRET keys (TYPE s3, KEY_ID {key}, SECRET {secret}, REGION 'us-east-1', ENDPOINT {host},"
            " URL_STYLE 'path', USE_SSL false)"
        )
        duck.execute(
            f"ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{endpoint}/iceberg',"
            " SECRET keys, AUTHORIZATION_TYPE 'sigv4', SIGV4_SERVICE 's3', SIGV4_REGION 'us-east-1')"
        )
        yield duck


def _extension(name: str, version: str) -> Path:
    package = importlib.import_module(f"duckdb_extension_{name}")
    return Path(str(package.__file__)).parent / "extensions" / f"v{version}" / f"{name}.duckdb_extension"


def _text(value: str) -> str:
    """The text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"

"""DuckDB on the demo's table bucket, with nothing but a key to sign with."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def duckdb_on(endpoint: str, keys: Mapping[str, str], warehouse: str) -> Iterator[Any]:
    """A connection of DuckDB that has the tables as `lake.NAMESPACE.TABLE`."""
    # Any: DuckDB is there at run time only.
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
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"

"""DuckDB with a table bucket attached as `lake`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import duckdb

from tests.clients.boto import REGION, Keys, root_keys
from tests.clients.iceberg.lake import OWN, Lake

_EXTENSIONS: Final = ("avro", "httpfs", "iceberg")


class Duck:
    """A connection without a catalog cache beyond DuckDB's own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def __call__(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:  # Any: values of rows
        """Run a statement and return its rows."""
        found: list[tuple[Any, ...]] = self.connection.execute(statement, parameters or None).fetchall()
        return found


@contextmanager
def opened_duckdb() -> Iterator[Duck]:
    """DuckDB with extensions from Python packages and automatic downloads disabled."""
    config: dict[str, Any] = {  # Any: DuckDB's own typing of values
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "threads": 2,
    }
    with duckdb.connect(config=config) as connection:
        duck = Duck(connection)
        for name in _EXTENSIONS:
            duck(f"LOAD '{_extension(name)}'")
        yield duck


@contextmanager
def duckdb_on(
    lake: Lake,
    keys: Keys | None = None,
    *,
    mount: str = OWN,
    service: str = "s3",
    options: str = "",
    endpoint: str | None = None,
) -> Iterator[Duck]:
    """DuckDB with SigV4, by default as root. `options` are further options of ATTACH, each after a comma.

    Files are accessed with the same keys: DuckDB 1.5.5 cannot request vended credentials when it signs its requests.
    `endpoint` is the address of a relay in front of the server.
    """
    keys = keys or root_keys(lake.server)
    with opened_duckdb() as duck:
        endpoint = endpoint or lake.server.endpoint
        duck(
            f"CREATE SECRET keys (TYPE s3, KEY_ID '{keys.access_key}', SECRET '{keys.secret_key}', REGION '{REGION}',"
            f" ENDPOINT '{endpoint.removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
        )
        duck(
            f"ATTACH '{lake.warehouse}' AS lake (TYPE iceberg, ENDPOINT '{endpoint}{mount}', SECRET keys,"
            f" AUTHORIZATION_TYPE 'sigv4', SIGV4_SERVICE '{service}', SIGV4_REGION '{REGION}'{options})"
        )
        yield duck


def _extension(name: str) -> Path:
    """The extension's file in its Python package."""
    package = find_spec(f"duckdb_extension_{name}")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"

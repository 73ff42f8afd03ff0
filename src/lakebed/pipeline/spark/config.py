"""Spark properties for Lakebed: of the pipeline's own sessions, and printed for other Spark installations. Pure.

Start properties contain no secrets: they are on the command line of a process, which all users of the machine can read.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from lakebed.client.access import ServerAccess
from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import PipelineSettings
from lakebed.core.sizes import MIB

from .versions import EXTENSIONS, PACKAGES

CATALOG: Final = "lakebed"
"""The name of the catalog in Spark."""

CATALOG_CLASS: Final = "org.apache.iceberg.spark.SparkCatalog"
DELEGATION_HEADER: Final = "header.X-Iceberg-Access-Delegation"

KEY_VARIABLE: Final = "AWS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "AWS_SECRET_ACCESS_KEY"  # noqa: S105  # a name
TOKEN_VARIABLE: Final = "AWS_SESSION_TOKEN"  # noqa: S105  # a name
"""Environment variables from which the AWS SDK reads credentials when the properties have none."""

CONNECT_PORT: Final = 15002
"""Default port of Spark Connect."""

_LOCAL_PARTITIONS: Final = "8"
_CATALOGS: Final = "spark.sql.catalog."


class ConfigFormat(StrEnum):
    """The format of a printed configuration."""

    PROPERTIES = "properties"
    """Lines of `spark-defaults.conf`."""
    SUBMIT = "submit"
    """Flags of `spark-submit`, `spark-sql` and `pyspark`."""
    PYTHON = "python"
    """Calls of `SparkSession.builder`."""


def session_properties(settings: PipelineSettings) -> dict[str, str]:
    """Properties to start a session with, without secrets."""
    properties = {
        "spark.app.name": "lakebed",
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Its default is the package jars, which have no Python: each Python task would read their file lists again
        # (ADR 38).
        "spark.submit.pyFiles": "",
        "spark.driver.memory": f"{settings.driver_memory // MIB}m",
    }
    if is_local(settings.master):
        properties |= {
            # Independent of the network, which may resolve this machine's name to another address.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Otherwise Spark creates a Hive metastore in the working directory, and locks it.
            "spark.sql.catalogImplementation": "in-memory",
            # The default of 200 shuffle partitions is for clusters.
            "spark.sql.shuffle.partitions": _LOCAL_PARTITIONS,
        }
    given = {name: value.reveal() for name, value in settings.spark.items() if not name.startswith(_CATALOGS)}
    return properties | given


def running_properties(settings: PipelineSettings) -> dict[str, str]:
    """Properties to set on a running session: the catalogs of `pipeline.spark`, which may hold passwords."""
    return {name: value.reveal() for name, value in settings.spark.items() if name.startswith(_CATALOGS)}


def catalog_properties(access: ServerAccess, warehouse: str, settings: PipelineSettings) -> dict[str, str]:
    """Properties of a warehouse as a Spark catalog, without the credentials of its requests.

    They have no credentials for files: the catalog vends those per table, or signs requests.
    """
    return {
        "type": "rest",
        "uri": access.catalog_uri,
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": access.region,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3",
        "rest.signing-region": access.region,
        DELEGATION_HEADER: settings.delegation.value,
        # Otherwise a session misses the commits of other writers for 30 s, and plans on outdated metadata.
        "cache-enabled": "false",
    }


def signing_properties(access: ServerAccess) -> dict[str, str]:
    """The credentials for requests to the catalog: secrets."""
    properties = {
        "rest.access-key-id": access.access_key_id,
        "rest.secret-access-key": access.secret_access_key.reveal(),
    }
    if access.session_token is not None:
        properties["rest.session-token"] = access.session_token.reveal()
    return properties


def under_catalog(catalog: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Catalog properties under their full Spark names."""
    return {f"spark.sql.catalog.{catalog}.{name}": value for name, value in properties.items()}


def bound_name(prefix: str, *bound_to: str) -> str:
    """A catalog name unique to what it is bound to: a session keeps a used catalog, whatever is set later."""
    identity = "\n".join(bound_to)
    return f"{prefix}_{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine."""
    return master == "local" or master.startswith("local[")


def is_connect(master: str) -> bool:
    """Whether the master is a Spark Connect server."""
    return master.startswith("sc://")


def connect_address(master: str) -> tuple[str, int]:
    """Host and port of a Spark Connect server. Raises InvalidSetting."""
    try:
        parts = urlsplit(master)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise InvalidSetting(f"pipeline.master: expected sc://HOST:PORT. found={master}")
    return host, CONNECT_PORT if port is None else port


def render_config(
    access: ServerAccess, warehouse: str, settings: PipelineSettings, form: ConfigFormat, *, show_secrets: bool = False
) -> str:
    """A configuration for another Spark. Without `show_secrets`, credentials are read from its environment."""
    properties = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.sql.extensions": EXTENSIONS,
        f"spark.sql.catalog.{CATALOG}": CATALOG_CLASS,
        **under_catalog(CATALOG, catalog_properties(access, warehouse, settings)),
    }
    if show_secrets:
        properties |= under_catalog(CATALOG, signing_properties(access))
        return _WRITERS[form](properties, ())
    variables = [KEY_VARIABLE, SECRET_VARIABLE, *([TOKEN_VARIABLE] if access.session_token is not None else [])]
    return _WRITERS[form](properties, variables)


def _as_properties(properties: Mapping[str, str], variables: list[str] | tuple[str, ...]) -> str:
    width = max(map(len, properties))
    lines = [f"# Credentials are read from {', '.join(variables)}: set them where Spark starts."] if variables else []
    return "\n".join([*lines, *(f"{name.ljust(width)}  {value}" for name, value in properties.items())]) + "\n"


def _as_flags(properties: Mapping[str, str], variables: list[str] | tuple[str, ...]) -> str:
    lines = [f"# Credentials are read from {', '.join(variables)}: set them where Spark starts."] if variables else []
    flags = [f"--packages {properties['spark.jars.packages']}"]
    flags += [
        f"--conf {shlex.quote(f'{name}={value}')}"
        for name, value in properties.items()
        if name != "spark.jars.packages"
    ]
    return "\n".join([*lines, " \\\n".join(flags)]) + "\n"


def _as_python(properties: Mapping[str, str], variables: list[str] | tuple[str, ...]) -> str:
    names = dict(zip(("rest.access-key-id", "rest.secret-access-key", "rest.session-token"), variables, strict=False))
    lines = [
        *(["import os", ""] if names else []),
        "from pyspark.sql import SparkSession",
        "",
        "spark = (",
        "    SparkSession.builder",
        *(f"    .config({_text(name)}, {_text(value)})" for name, value in properties.items()),
        "    .getOrCreate()",
        ")",
        # Set afterwards: start properties are on the command line of the JVM.
        *(
            f"spark.conf.set({_text(f'spark.sql.catalog.{CATALOG}.{name}')}, os.environ[{_text(variable)}])"
            for name, variable in names.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


_WRITERS: Final = {
    ConfigFormat.PROPERTIES: _as_properties,
    ConfigFormat.SUBMIT: _as_flags,
    ConfigFormat.PYTHON: _as_python,
}

"""What Spark is told: to run the pipeline's jobs, or printed for a Spark of somebody's own. Pure.

Secrets are never among the properties that a session is started with: those travel on the command line of a process,
which everybody on the machine can read.
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
"""What the catalog is called in Spark."""

CATALOG_CLASS: Final = "org.apache.iceberg.spark.SparkCatalog"
DELEGATION_HEADER: Final = "header.X-Iceberg-Access-Delegation"

KEY_VARIABLE: Final = "AWS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "AWS_SECRET_ACCESS_KEY"  # noqa: S105  # a name
TOKEN_VARIABLE: Final = "AWS_SESSION_TOKEN"  # noqa: S105  # a name
"""Where Iceberg looks for the keys to sign with, when its properties name none."""

CONNECT_PORT: Final = 15002
"""Where Spark Connect listens, if an address does not say."""

_LOCAL_PARTITIONS: Final = "8"
_CATALOGS: Final = "spark.sql.catalog."


class ConfigFormat(StrEnum):
    """How a configuration is written."""

    PROPERTIES = "properties"
    """Lines of `spark-defaults.conf`."""
    SUBMIT = "submit"
    """Flags of `spark-submit`, `spark-sql` and `pyspark`."""
    PYTHON = "python"
    """Calls of `SparkSession.builder`."""


def session_properties(settings: PipelineSettings) -> dict[str, str]:
    """Properties to start a session with, which no secret is among."""
    properties = {
        "spark.app.name": "lakebed",
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Left out, it is the jars of the packages: no Python is in them, and each task in Python would read their lists
        # of files anew (ADR 38).
        "spark.submit.pyFiles": "",
        "spark.driver.memory": f"{settings.driver_memory // MIB}m",
    }
    if is_local(settings.master):
        properties |= {
            # Without a network, or with one that resolves this machine's name to somewhere else.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Of no use on one machine: it would look for a Hive of its own, and find a folder to lock.
            "spark.sql.catalogImplementation": "in-memory",
            # Hundreds of shuffle partitions are for hundreds of executors.
            "spark.sql.shuffle.partitions": _LOCAL_PARTITIONS,
        }
    given = {name: value.reveal() for name, value in settings.spark.items() if not name.startswith(_CATALOGS)}
    return properties | given


def running_properties(settings: PipelineSettings) -> dict[str, str]:
    """Properties to give to a session that runs: the catalogs of `pipeline.spark`, which may have passwords."""
    return {name: value.reveal() for name, value in settings.spark.items() if name.startswith(_CATALOGS)}


def catalog_properties(access: ServerAccess, warehouse: str, settings: PipelineSettings) -> dict[str, str]:
    """Properties of a warehouse as a catalog of Spark, without the keys that its requests are signed with.

    There is no key to files among them: the catalog hands those out, a table at a time, or signs.
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
        # Left on, a session does not see for half a minute what others commit, and plans on what is no more.
        "cache-enabled": "false",
    }


def signing_properties(access: ServerAccess) -> dict[str, str]:
    """The keys that requests to the catalog are signed with: secrets."""
    properties = {
        "rest.access-key-id": access.access_key_id,
        "rest.secret-access-key": access.secret_access_key.reveal(),
    }
    if access.session_token is not None:
        properties["rest.session-token"] = access.session_token.reveal()
    return properties


def under_catalog(catalog: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog as Spark spells them."""
    return {f"spark.sql.catalog.{catalog}.{name}": value for name, value in properties.items()}


def bound_name(beginning: str, *known_by: str) -> str:
    """A name for a catalog, of what it is bound to: a session keeps one that was used, whatever it is told later."""
    told = "\n".join(known_by)
    return f"{beginning}_{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def is_local(master: str) -> bool:
    """Whether Spark runs in the process that it is started from."""
    return master == "local" or master.startswith("local[")


def is_connect(master: str) -> bool:
    """Whether it is a Spark Connect server: one that was started by somebody else, and is spoken to over a network."""
    return master.startswith("sc://")


def connect_address(master: str) -> tuple[str, int]:
    """Where a Spark Connect server listens. Raises InvalidSetting."""
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
    """A configuration for a Spark of somebody's own. Without `show_secrets`, keys are taken from its environment."""
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
    lines = [f"# Keys are read from {', '.join(variables)}: set them where Spark starts."] if variables else []
    return "\n".join([*lines, *(f"{name.ljust(width)}  {value}" for name, value in properties.items())]) + "\n"


def _as_flags(properties: Mapping[str, str], variables: list[str] | tuple[str, ...]) -> str:
    lines = [f"# Keys are read from {', '.join(variables)}: set them where Spark starts."] if variables else []
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
        # Afterwards, and not above: what a session is started with is on the command line of its process.
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

"""Optional dependencies: the package's extras, their modules, and the error for a missing extra.

Code that needs an extra calls `require_extra` before it imports from it: a failed import names the missing module, not
the package to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from .errors import MissingExtra

_ARROW: Final = ("pyarrow",)

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "azure": ("azure.core", "azure.identity", "azure.storage.blob", "requests"),
    "conform": ("boto3", *_ARROW, "pyiceberg"),
    "demo": (
        "duckdb",
        "duckdb_extension_avro",
        "duckdb_extension_httpfs",
        "duckdb_extension_iceberg",
        # From the bundled extras conform, pipeline and streams:
        "boto3",
        "google.protobuf",
        "numpy",
        *_ARROW,
        "pyiceberg",
        "pyroaring",
        "pyspark",
        "rocksdict",
    ),
    "gcs": ("google.auth", "google.cloud.storage", "requests"),
    "pipeline": ("numpy", *_ARROW, "pyspark"),
    "postgres": ("asyncpg",),
    "s3": ("botocore",),
    "select": ("datafusion", "fastavro", *_ARROW, "sqlglot"),
    "streams": ("google.protobuf", "numpy", *_ARROW, "pyroaring", "rocksdict"),
    "targets-amqp": ("aio_pika",),
    "targets-kafka": ("aiokafka",),
    "targets-mqtt": ("paho.mqtt",),
    "targets-mysql": ("aiomysql",),
    "targets-nats": ("nats",),
    "targets-postgres": ("asyncpg",),
    "targets-pulsar": ("pulsar",),
    "targets-redis": ("redis",),
}
"""The modules of each extra that this package imports. `pyproject.toml` lists the distributions; a test compares the
two. `all` and `targets` only bundle others."""


def require_extra(name: str, needed_by: str) -> None:
    """Raise MissingExtra unless every module of the extra is installed. Imports none of them.

    `needed_by` starts the message: a command, a setting or a feature.
    """
    require_modules(EXTRAS[name], f"'lakebed[{name}]'", needed_by)


def require_modules(modules: Iterable[str], distribution: str, needed_by: str) -> None:
    """The same for modules of a distribution that is not an extra of this package."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        what = "the extra" if "[" in distribution else "a library"
        raise MissingExtra(f"{needed_by} needs {what}: pip install {distribution} (missing: {', '.join(missing)})")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the parent package
        return False

"""Optional dependencies: the extras of the package, the modules that each brings, and the error for a missing one.

Code that needs an extra calls `require_extra` before it imports from it. There is no other way: an import that fails
says which module is missing, not what to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from .errors import MissingExtra

_ARROW: Final = ("pyarrow",)

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "conform": ("boto3", *_ARROW, "pyiceberg"),
    "demo": (
        "duckdb",
        "duckdb_extension_avro",
        "duckdb_extension_httpfs",
        "duckdb_extension_iceberg",
        # And those of the extras that it bundles: conform, pipeline and streams.
        "boto3",
        "google.protobuf",
        "numpy",
        *_ARROW,
        "pyiceberg",
        "pyroaring",
        "pyspark",
        "rocksdict",
    ),
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
"""By extra, the modules that it brings and that our code imports. `pyproject.toml` lists the distributions; a test
compares the two. `all` and `targets` only bundle others."""


def require_extra(name: str, needed_by: str) -> None:
    """Raise MissingExtra unless every module of the extra can be imported. Imports none of them.

    `needed_by` begins the message: a command, a setting, a feature.
    """
    require_modules(EXTRAS[name], f"'lakebed[{name}]'", needed_by)


def require_modules(modules: Iterable[str], distribution: str, needed_by: str) -> None:
    """The same for modules of a distribution that is no extra of ours."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        what = "the extra" if "[" in distribution else "a library"
        raise MissingExtra(f"{needed_by} needs {what}: pip install {distribution} (missing: {', '.join(missing)})")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False

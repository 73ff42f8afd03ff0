"""Spark sessions: started on this machine or a cluster, or connected to a Spark Connect server."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakebed.client.access import ServerAccess
from lakebed.core.errors import MissingExtra, PipelineUnavailable
from lakebed.core.extras import require_extra
from lakebed.core.settings import PipelineSettings

from .config import (
    CATALOG,
    CATALOG_CLASS,
    catalog_properties,
    connect_address,
    is_connect,
    is_local,
    running_properties,
    session_properties,
    signing_properties,
    under_catalog,
)
from .java import find_java
from .versions import EXTENSIONS, PACKAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ERROR_LINE: Final = re.compile(
    r"unresolved dependency|not found|Exception|Error|refused|Cannot|Could not|Unable", re.I
)
_MAX_QUOTED: Final = 600
_CONNECT_SECONDS: Final = 10.0


def spark_session(
    access: ServerAccess, warehouse: str, settings: PipelineSettings | None = None, *, catalog: str = CATALOG
) -> SparkSession:
    """The session of this process with the warehouse as a catalog, started if needed.

    Raises PipelineUnavailable, with advice, when Spark cannot start.
    """
    settings = settings or PipelineSettings()
    spark = start_spark(settings)
    attach_catalog(spark, access, warehouse, settings, catalog=catalog)
    return spark


def start_spark(settings: PipelineSettings) -> SparkSession:
    """The session of this process without a catalog, started if needed. Raises PipelineUnavailable."""
    _require_pyspark()
    if is_connect(settings.master):
        spark = _connect(settings)
    elif "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = _submitted()
    else:
        spark = _start(settings)
    for name, value in running_properties(settings).items():
        spark.conf.set(name, value)
    return spark


def attach_catalog(
    spark: SparkSession,
    access: ServerAccess,
    warehouse: str,
    settings: PipelineSettings | None = None,
    *,
    catalog: str = CATALOG,
) -> None:
    """Add a warehouse as a catalog of a running session. A name is bound once: Spark keeps used catalogs."""
    properties = {
        # Options must not be substituted from the driver's environment, which has secrets.
        "spark.sql.variable.substitute": "false",
        f"spark.sql.catalog.{catalog}": CATALOG_CLASS,
        **under_catalog(catalog, catalog_properties(access, warehouse, settings or PipelineSettings())),
        **under_catalog(catalog, signing_properties(access)),
    }
    for name, value in properties.items():
        spark.conf.set(name, value)


def has_java(spark: SparkSession) -> bool:
    """Whether this process has Spark's JVM; with Spark Connect it is remote."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _require_pyspark() -> None:
    try:
        require_extra("pipeline", "Spark")
    except MissingExtra as error:
        raise PipelineUnavailable(str(error)) from error


def _connect(settings: PipelineSettings) -> SparkSession:
    """A session of a Spark Connect server."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        # PySpark retries a refused connection for ten minutes.
        socket.create_connection(connect_address(settings.master), _CONNECT_SECONDS).close()
        spark = SparkSession.builder.remote(settings.master).getOrCreate()
        _require_extensions(spark, f"the Spark Connect server {settings.master}")
    except ImportError as error:
        raise PipelineUnavailable(
            "Spark Connect is not installed; install it with: pip install 'pyspark[connect]'."
            f" missing={error.name or error}"
        ) from error
    except (PySparkException, OSError) as error:
        raise PipelineUnavailable(
            "Spark Connect server unreachable; check that it runs, and pipeline.master."
            f" master={settings.master} reason={_first_line(error)}"
        ) from error
    return spark


def _submitted() -> SparkSession:
    """The session of the Spark that this process was submitted to."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    _require_extensions(spark, "this Spark")
    return spark


def _require_extensions(spark: SparkSession, which: str) -> None:
    if EXTENSIONS not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise PipelineUnavailable(
            f"{which} lacks Iceberg's extensions, which cannot be added later; start it with the output of"
            " `lakebed spark-config --print --format submit`"
        )


def _start(settings: PipelineSettings) -> SparkSession:
    """A new session with a JVM of this process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAll(list(session_properties(settings).items()))
    environment = _environment(settings.master)
    # The JVM's output goes to a file: it is long, and of interest only when the start fails.
    log = Path(tempfile.mkdtemp(prefix="lakebed-spark-")) / "spark.log"
    with _environment_variables(environment):
        try:
            if SparkContext._gateway is None:
                with log.open("wb") as output, package_lock():
                    gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
        except Exception as error:
            raise _start_failure(settings, error, log) from error
    atexit.register(shutil.rmtree, log.parent, ignore_errors=True)
    return spark


def _environment(master: str) -> dict[str, str]:
    """Environment variables of the JVM."""
    environment = {"JAVA_HOME": str(find_java())}
    if is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return environment


@contextmanager
def _environment_variables(environment: Mapping[str, str]) -> Iterator[None]:
    """Set variables while the block runs: the JVM inherits them when it starts."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start_failure(settings: PipelineSettings, error: Exception, log: Path) -> PipelineUnavailable:
    output = log.read_text(errors="replace") if log.exists() else ""
    errors = " | ".join(line.strip() for line in output.splitlines() if _ERROR_LINE.search(line))[:_MAX_QUOTED]
    if "unresolved dependency" in output:
        advice = (
            "Spark packages could not be downloaded; check the network access to a Maven repository, or set"
            f" spark.jars.ivySettings in pipeline.spark. packages={','.join(PACKAGES)}"
        )
    else:
        advice = "Spark failed to start; check that pipeline.master is reachable and has enough memory"
    reason = errors or _first_line(error)
    return PipelineUnavailable(f"{advice}. master={settings.master} reason={reason} log={log}")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:_MAX_QUOTED]


@contextmanager
def package_lock() -> Iterator[None]:
    """Hold the lock of this user under which Spark fetches its packages.

    Ivy brings them into one folder of the user, and two downloads at once leave it unusable. Once the packages are
    there, the lock is held only for the check.
    """
    path = Path(tempfile.gettempdir()) / f"lakebed-spark-packages-{os.geteuid()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

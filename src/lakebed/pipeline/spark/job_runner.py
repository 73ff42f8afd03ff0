"""The Spark of a worker: started with the first task, kept warm, given up when it is gone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from lakebed.client.access import ServerAccess
from lakebed.client.tables import TableRef
from lakebed.core.errors import Unavailable
from lakebed.core.jobs import TaskSpec
from lakebed.core.settings import PipelineSettings

from ..jobs import find_job
from ..progress import Progress
from ..report import JobReport
from ..table_ref import CatalogTable
from .config import CATALOG, bound_name
from .session import attach_catalog, has_java, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("lakebed.pipeline")


class JobRunner(Protocol):
    """What a worker runs orders with."""

    def start(self, progress: Progress) -> None:
        """Have at hand what orders need. Raises PipelineUnavailable."""
        ...

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        """Do what is ordered. Raises LakebedError."""
        ...

    def cancel(self) -> None:
        """Have the running order end soon, with an error. From any thread."""
        ...

    def close(self) -> None:
        """Give up what is held."""
        ...


class SparkJobRunner:
    """Runs orders in one Spark session. A warehouse becomes a catalog of it with its first order."""

    def __init__(self, access: ServerAccess, settings: PipelineSettings) -> None:
        self._access = access
        self._settings = settings
        self._spark: SparkSession | None = None
        self._catalogs: set[str] = set()

    def start(self, progress: Progress) -> None:
        """Start Spark, unless it runs. Raises PipelineUnavailable when there is none to be had."""
        self._session(progress)

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        """Do what is ordered. Raises PipelineUnavailable, and what jobs raise; Unavailable if Spark ended meanwhile."""
        job = find_job(spec.job)
        job.check(spec.options)
        spark = self._session(progress)
        progress.stage("beginning")
        ref = (
            TableRef(spec.warehouse, spec.namespace, spec.table)
            if spec.table
            else TableRef.parse(spec.warehouse, job.default_table)
        )
        try:
            catalog = self._catalog(spark, spec.warehouse)
            return job.do(spark, CatalogTable(ref, self._access, catalog), spec.options, progress=progress)
        except Exception as error:
            if _is_alive(spark):
                raise
            # Whatever was raised tells of the connection that broke, and not of why Spark ended.
            raise Unavailable(
                f"Spark ended while the job ran, and the next task {self._next(spark)}. table={ref}"
            ) from error

    def cancel(self) -> None:
        """Have Spark drop what it is at."""
        spark = self._spark
        if spark is None:
            return
        try:
            if has_java(spark):
                spark.sparkContext.cancelAllJobs()
            else:
                spark.interruptAll()
        except Exception as error:  # whatever it is, the order ends by itself or with the process
            log.warning("Spark did not take that a job is to end", exc_info=error)

    def close(self) -> None:
        """Stop Spark. The next order starts it anew."""
        spark, self._spark, self._catalogs = self._spark, None, set()
        if spark is not None:
            _stop(spark)

    def _session(self, progress: Progress) -> SparkSession:
        if self._spark is not None and not _is_alive(self._spark):
            log.warning("Spark is gone; another is started")
            self.close()
        if self._spark is None:
            progress.stage("starting Spark")
            self._spark = start_spark(self._settings)
        return self._spark

    def _next(self, spark: SparkSession) -> str:
        """What the next task does about a Spark that is gone, and what to look at if it goes again."""
        if has_java(spark):
            return (
                "starts another: if it does so again, see that the machine has the memory that pipeline.driver_memory"
                " lets it take"
            )
        return f"joins it anew: see that the Spark Connect server runs. master={self._settings.master}"

    def _catalog(self, spark: SparkSession, warehouse: str) -> str:
        """What a warehouse is called in the session: its own name may not do, and the session may not be ours alone."""
        name = bound_name(CATALOG, self._access.endpoint, warehouse, self._access.access_key_id)
        if name not in self._catalogs:
            attach_catalog(spark, self._access, warehouse, self._settings, catalog=name)
            self._catalogs.add(name)
        return name


def _is_alive(spark: SparkSession) -> bool:
    try:
        if has_java(spark):
            return not spark.sparkContext._jsc.sc().isStopped()
        # Anything that the server is asked for each time: one that was started anew does not know the session.
        spark.conf.get("spark.app.name", "")
    except Exception:  # of the bridge to Java, or of the network: there is nobody at its other end
        return False
    return True


def _stop(spark: SparkSession) -> None:
    """Stop a session and its Java, whether or not they still answer."""
    is_ours = has_java(spark)
    try:
        spark.stop()
    except Exception as error:
        log.debug("Spark was gone before it was stopped", exc_info=error)
    if not is_ours:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        try:
            gateway.shutdown()
        except Exception as error:
            log.debug("Spark's Java was gone before it was ended", exc_info=error)
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
    # PySpark keeps these for the life of the process, and would answer with a session that is none.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None

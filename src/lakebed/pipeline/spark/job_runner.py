"""Runs a worker's jobs: the Spark session starts with the first task, stays warm, and is replaced when it dies."""

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
    """Runs the jobs of a worker."""

    def start(self, progress: Progress) -> None:
        """Prepare for jobs. Raises PipelineUnavailable."""
        ...

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        """Run a job. Raises LakebedError."""
        ...

    def cancel(self) -> None:
        """End the running job soon, with an error. May be called from any thread."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class SparkJobRunner:
    """Runs jobs in one Spark session. A warehouse becomes a catalog of the session with its first job."""

    def __init__(self, access: ServerAccess, settings: PipelineSettings) -> None:
        self._access = access
        self._settings = settings
        self._spark: SparkSession | None = None
        self._catalogs: set[str] = set()

    def start(self, progress: Progress) -> None:
        """Start Spark unless it runs. Raises PipelineUnavailable."""
        self._session(progress)

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        """Run a job. Raises PipelineUnavailable, the errors of jobs, and Unavailable if Spark died meanwhile."""
        job = find_job(spec.job)
        job.check(spec.options)
        spark = self._session(progress)
        progress.stage("starting the job")
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
            # The error is about the broken connection to the JVM, not about why Spark died.
            raise Unavailable(f"Spark died during the job; the next task {self._advice(spark)}. table={ref}") from error

    def cancel(self) -> None:
        """Cancel all Spark jobs."""
        spark = self._spark
        if spark is None:
            return
        try:
            if has_java(spark):
                spark.sparkContext.cancelAllJobs()
            else:
                spark.interruptAll()
        except Exception as error:  # the job ends by itself or with the process
            log.warning("job cancellation failed", exc_info=error)

    def close(self) -> None:
        """Stop Spark. The next job starts it again."""
        spark, self._spark, self._catalogs = self._spark, None, set()
        if spark is not None:
            _stop(spark)

    def _session(self, progress: Progress) -> SparkSession:
        if self._spark is not None and not _is_alive(self._spark):
            log.warning("Spark session died, starting another")
            self.close()
        if self._spark is None:
            progress.stage("starting Spark")
            self._spark = start_spark(self._settings)
        return self._spark

    def _advice(self, spark: SparkSession) -> str:
        """What happens with the next task, and what to check if Spark dies again."""
        if has_java(spark):
            return "starts another. If it dies again, check that the machine has the memory of pipeline.driver_memory"
        return f"reconnects. Check that the Spark Connect server runs. master={self._settings.master}"

    def _catalog(self, spark: SparkSession, warehouse: str) -> str:
        """The warehouse's catalog name in the session. Its own name may be invalid, and the session may be shared."""
        name = bound_name(CATALOG, self._access.endpoint, warehouse, self._access.access_key_id)
        if name not in self._catalogs:
            attach_catalog(spark, self._access, warehouse, self._settings, catalog=name)
            self._catalogs.add(name)
        return name


def _is_alive(spark: SparkSession) -> bool:
    try:
        if has_java(spark):
            return not spark.sparkContext._jsc.sc().isStopped()
        # Any request to the server: one that was restarted does not know the session.
        spark.conf.get("spark.app.name", "")
    except Exception:  # Py4J and network errors: the other end does not respond
        return False
    return True


def _stop(spark: SparkSession) -> None:
    """Stop a session and its JVM, even if they do not respond."""
    is_own = has_java(spark)
    try:
        spark.stop()
    except Exception as error:
        log.debug("Spark had died before it was stopped", exc_info=error)
    if not is_own:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        try:
            gateway.shutdown()
        except Exception as error:
            log.debug("the JVM had exited before it was stopped", exc_info=error)
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
    # PySpark keeps these for the life of the process, and would return a dead session.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None

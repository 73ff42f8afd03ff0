"""`lakebed shell`: an interactive PySpark session on a catalog."""

from __future__ import annotations

import argparse
import code
import sys
from typing import TYPE_CHECKING

from lakebed.core.errors import LakebedError
from lakebed.core.extras import require_extra
from lakebed.pipeline.errors import failure_of
from lakebed.pipeline.spark.config import CATALOG
from lakebed.pipeline.spark.session import spark_session
from lakebed.pipeline.spark.versions import ICEBERG_VERSION

from ..server_access import add_access_flags, read_access, read_warehouse
from ..settings_flags import read_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--sql", metavar="STATEMENT", help="run one statement, print its rows and exit")
    add_access_flags(parser, warehouse=True)


def run(arguments: argparse.Namespace) -> int:
    """Start Spark, then run the statement or the shell."""
    require_extra("pipeline", "lakebed shell")
    settings = read_settings(arguments).settings
    access, warehouse = read_access(arguments, settings), read_warehouse(arguments)
    print("starting Spark …", file=sys.stderr)
    spark = spark_session(access, warehouse, settings.pipeline)
    try:
        spark.sql(f"USE {CATALOG}")
        if arguments.sql is not None:
            _show(spark, arguments.sql)
        else:
            _interact(spark, warehouse, access.endpoint)
    except LakebedError:
        raise
    except Exception as error:
        made = failure_of(error, warehouse)
        if made is None:
            raise
        raise made from error
    finally:
        spark.stop()
    return 0


def _show(spark: SparkSession, statement: str) -> None:
    found = spark.sql(statement)
    if found.columns:
        found.show(n=1000, truncate=False)


def _interact(spark: SparkSession, warehouse: str, endpoint: str) -> None:
    banner = (
        f"Spark {spark.version} with Iceberg {ICEBERG_VERSION} on {endpoint}, table bucket {warehouse}.\n"
        f"`spark` is the session, `sql` runs a statement; the catalog is named {CATALOG}. Ctrl-D exits."
    )
    code.interact(banner=banner, local={"spark": spark, "sql": spark.sql}, exitmsg="")

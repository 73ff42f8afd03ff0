"""Versions of Spark, Iceberg and Java that the pipeline supports, pinned here and nowhere else."""

from __future__ import annotations

from typing import Final

SPARK_VERSION: Final = "4.1"
SCALA_VERSION: Final = "2.13"

ICEBERG_VERSION: Final = "1.12.0"

PACKAGES: Final = (
    f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_VERSION}_{SCALA_VERSION}:{ICEBERG_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
)
"""Packages that Spark resolves at its first start, and caches for starts without a network."""

EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""Iceberg's SQL extensions: procedures, branches, partition fields."""

JAVA_VERSIONS: Final = (17, 21)
"""Supported Java versions. Later ones lack APIs that Spark's Hadoop needs."""

JAVA_PACKAGE: Final = "openjdk-17-jre-headless"
"""The Debian package of the first of them."""

"""What the pipeline runs on: versions that go together. They are named here and nowhere else."""

from __future__ import annotations

from typing import Final

SPARK_VERSION: Final = "4.1"
SCALA_VERSION: Final = "2.13"

ICEBERG_VERSION: Final = "1.12.0"

PACKAGES: Final = (
    f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_VERSION}_{SCALA_VERSION}:{ICEBERG_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
)
"""What Spark resolves when it starts, once; afterwards it has them at hand, also without a network."""

EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""Iceberg's own SQL: procedures, branches, partition fields."""

JAVA_VERSIONS: Final = (17, 21)
"""Spark does not start on others: later ones lack what its Hadoop asks for."""

JAVA_PACKAGE: Final = "openjdk-17-jre-headless"
"""Where Debian and Ubuntu have the first of them."""

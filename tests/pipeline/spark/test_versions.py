from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from lakebed.pipeline.spark.versions import PACKAGES, SPARK_VERSION

ROOT = Path(__file__).parents[3]


def test_pyspark_version_matches_the_packages() -> None:
    assert importlib.metadata.version("pyspark").startswith(f"{SPARK_VERSION}.")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"pyspark>={SPARK_VERSION},<4.2" in extras["pipeline"]
    assert PACKAGES[0].split(":")[1] == f"iceberg-spark-runtime-{SPARK_VERSION}_2.13"


def test_packages_have_one_iceberg_version() -> None:
    assert len({package.split(":")[2] for package in PACKAGES}) == 1

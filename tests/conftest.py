"""Fixtures of the whole suite."""

from __future__ import annotations

import os
from contextlib import suppress

from hypothesis import settings

with suppress(ImportError):
    # Before DuckDB: both are bound to Python by the same library, and of two that share it the first to come loses its
    # errors to the second where that is Pulsar's client.
    import pulsar  # noqa: F401

pytest_plugins = [
    "tests.fixtures.evidence",
    "tests.fixtures.minio",
    "tests.fixtures.postgres",
    "tests.fixtures.server",
    "tests.fixtures.spark",
    "tests.fixtures.trino",
    # After those that they import: pytest rewrites what it loads itself.
    "tests.fixtures.compatibility_kit",
    "tests.fixtures.reference_catalog",
]

# Examples are judged by what they show, never by how long they took on a busy machine.
settings.register_profile("lakebed", deadline=None)
settings.load_profile("lakebed")

# What somebody's shell has set must not reach the code under test.
for _name in [name for name in os.environ if name.startswith(("LAKEBED_", "AWS_"))]:
    if _name != "LAKEBED_CACHE":
        del os.environ[_name]

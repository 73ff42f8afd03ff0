"""Fixtures of the whole suite."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
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

_ENGINES: Final = ("cli/", "clients/", "examples/", "pipeline/", "faults/pipeline/", "server/test_embedded_worker")
"""Tests that share one Spark, start one, or are processes of other clients: never two Sparks at once."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the tests: two of them have those with servers, so that each server is started once."""
    folder = config.rootpath / "tests"
    for item in items:
        if any(item.get_closest_marker(name) for name in ("slow", "integration", "heavy")):
            place = Path(item.path).relative_to(folder).as_posix()
            item.add_marker(pytest.mark.xdist_group("engines" if place.startswith(_ENGINES) else "services"))

"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

with suppress(ImportError):
    # Before DuckDB: both use the same binding library, and if Pulsar's client is imported second, DuckDB's exceptions
    # are raised as Pulsar's.
    import pulsar  # noqa: F401

pytest_plugins = [
    "tests.fixtures.evidence",
    "tests.fixtures.minio",
    "tests.fixtures.postgres",
    "tests.fixtures.server",
    "tests.fixtures.spark",
    "tests.fixtures.trino",
    # After the plugins that they import: pytest rewrites assertions only of plugins that it imports itself.
    "tests.fixtures.compatibility_kit",
    "tests.fixtures.reference_catalog",
]

# Without a deadline: examples are slow on a busy machine.
settings.register_profile("lakebed", deadline=None)
# `make test-fast`: few examples, except for tests that set their number.
settings.register_profile("look", deadline=None, max_examples=20)
settings.load_profile("lakebed")

# Variables of the developer's shell must not reach the code under test.
for _name in [name for name in os.environ if name.startswith(("LAKEBED_", "AWS_"))]:
    del os.environ[_name]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude collected tests from garbage collection.

    Thousands of tests and their imports are a few million permanent objects. Each full collection would take most of a
    second, during the import and during tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)  # as in a server: most objects of a test are freed before a collection
        gc.enable()

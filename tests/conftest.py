"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress

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
# `make test-fast`: a look at each property. Those that say how many examples they need get them.
settings.register_profile("look", deadline=None, max_examples=20)
settings.load_profile("lakebed")

# What somebody's shell has set must not reach the code under test.
for _name in [name for name in os.environ if name.startswith(("LAKEBED_", "AWS_"))]:
    del os.environ[_name]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is collected out of every search for garbage.

    Thousands of tests and all that they import are a few million objects, none of which ever goes: to look through them
    takes most of a second, over and over while there come to be more, and now and then in the midst of a test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)  # as a server has it: most of what a test makes is gone before a search
        gc.enable()

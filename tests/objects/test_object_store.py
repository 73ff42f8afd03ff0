"""Random operations on an object store, compared with a model after every step; see `machine`."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from lakebed.objects import multipart

from .stores import OpenObjectStore
from .upload_machine import MIN_PART_BYTES, ObjectStoreMachine


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few bytes instead of 5 MiB, and no syncs: other tests cover both."""
    monkeypatch.setattr(multipart, "MIN_PART_BYTES", MIN_PART_BYTES)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


def _run_machine(open_object_store: OpenObjectStore, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: ObjectStoreMachine(open_object_store),  # type: ignore[arg-type]  # declared as a class, only called
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("open_object_store", ["sqlite-memory"], indirect=True)
def test_random_operations_match_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=60, steps=40)


@pytest.mark.slow
def test_random_operations_match_the_model_on_all_stores(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=6, steps=30)


@pytest.mark.heavy
def test_many_random_operations_match_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=200, steps=60)

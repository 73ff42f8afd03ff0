"""Random operations on a catalog, compared with a model after every step: `machine` has the invariants."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.objects.stores import OpenObjectStore

from .machine import CatalogMachine


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsync, which has separate tests."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


def _run_machine(open_object_store: OpenObjectStore, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: CatalogMachine(open_object_store),  # type: ignore[arg-type]  # declared as a class, only called
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("open_object_store", ["sqlite-memory"], indirect=True)
def test_random_operations_agree_with_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=40, steps=40)


@pytest.mark.slow
def test_random_operations_agree_with_the_model_on_every_pair_of_stores(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=5, steps=25)


@pytest.mark.heavy
def test_many_random_operations_agree_with_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=200, steps=60)

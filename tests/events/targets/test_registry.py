from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.seam import TargetType
from tests.fixtures.memory_target import MemorySettings, memory_type

TYPES = TargetTypes([memory_type({})])


def test_settings_are_decoded_by_type() -> None:
    assert TYPES.read("memory", {"destination": "p", "max_in_flight": "3"}) == MemorySettings(
        destination="p", max_in_flight=3
    )


def test_other_types_are_loaded_on_demand() -> None:
    loaded: list[str] = []

    def find(name: str) -> TargetType[Any]:
        loaded.append(name)
        return dataclasses.replace(memory_type({}), name=name)

    types = TargetTypes([memory_type({})], find)
    assert types.find("memory").name == "memory"
    assert types.read("other", {}) == MemorySettings()
    assert loaded == ["other"]


@pytest.mark.parametrize(
    ("type_", "document", "argument"),
    [
        ("pigeon", {}, "type"),
        ("memory", {"places": "p"}, "places"),
        ("memory", {"max_in_flight": "hunter2"}, "max_in_flight"),
        ("memory", {"password": ["hunter2"]}, "password"),
    ],
)
def test_invalid_settings_are_rejected_by_name_without_secrets(
    type_: str, document: dict[str, object], argument: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        TYPES.read(type_, document)
    assert caught.value.argument == argument
    assert "hunter2" not in str(caught.value)

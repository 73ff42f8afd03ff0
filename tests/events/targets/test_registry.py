from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.seam import TargetType
from tests.fixtures.memory_target import MemorySettings, memory_type

KINDS = TargetTypes([memory_type({})])


def test_settings_are_decoded_by_type() -> None:
    assert KINDS.read("memory", {"destination": "p", "max_in_flight": "3"}) == MemorySettings(
        destination="p", max_in_flight=3
    )


def test_other_types_are_loaded_on_demand() -> None:
    asked: list[str] = []

    def find(name: str) -> TargetType[Any]:
        asked.append(name)
        return dataclasses.replace(memory_type({}), name=name)

    kinds = TargetTypes([memory_type({})], find)
    assert kinds.find("memory").name == "memory"
    assert kinds.read("other", {}) == MemorySettings()
    assert asked == ["other"]


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
        KINDS.read(type_, document)
    assert caught.value.argument == argument
    assert "hunter2" not in str(caught.value)

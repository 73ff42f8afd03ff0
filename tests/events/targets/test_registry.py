from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.seam import TargetType
from tests.fixtures.memory_target import MemorySettings, memory_type

KINDS = TargetTypes([memory_type({})])


def test_settings_are_read_as_their_kind_has_them() -> None:
    assert KINDS.read("memory", {"place": "p", "max_in_flight": "3"}) == MemorySettings(place="p", max_in_flight=3)


def test_other_kinds_are_found_when_they_are_asked_for() -> None:
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
def test_what_cannot_be_is_refused_by_its_name_and_not_quoted(
    type_: str, document: dict[str, object], argument: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        KINDS.read(type_, document)
    assert caught.value.argument == argument
    assert "hunter2" not in str(caught.value)

from __future__ import annotations

import sys

import pytest

import lakebed.events.targets as targets
from lakebed.core.errors import InvalidInput, MissingExtra
from lakebed.core.extras import EXTRAS
from lakebed.events.targets.registry import TYPES, WITHOUT_EXTRA, load_target_type
from lakebed.events.targets.seam import TargetSettings


@pytest.mark.parametrize("name", sorted({*TYPES} - WITHOUT_EXTRA))
def test_type_has_its_name_and_its_secrets_are_fields(name: str) -> None:
    target_type = load_target_type(name)
    assert target_type.name == name
    assert issubclass(target_type.settings, TargetSettings)
    assert target_type.settings.secrets <= set(target_type.settings.__struct_fields__)


def test_unknown_type_is_rejected() -> None:
    for name in ("seam", "pigeon", "../kafka", ""):
        with pytest.raises(InvalidInput) as raised:
            load_target_type(name)
        assert raised.value.argument == "type"


def test_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakebed.events.targets.kafka", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "aiokafka"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    monkeypatch.delattr(targets, "kafka", raising=False)
    with pytest.raises(MissingExtra, match=r"lakebed\[targets-kafka\]"):
        load_target_type("kafka")


def test_every_target_extra_has_a_type() -> None:
    types = {extra.removeprefix("targets-") for extra in EXTRAS if extra.startswith("targets-")}
    assert types == {*TYPES} - WITHOUT_EXTRA - {"elasticsearch"}

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lakebed.events.targets as targets
from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.events.targets.kinds import CLIENT_LIBRARIES, WITHOUT_EXTRA, kind_named
from lakebed.events.targets.seam import TargetSettings


@pytest.mark.parametrize("name", sorted(CLIENT_LIBRARIES.keys() - WITHOUT_EXTRA))
def test_a_kind_has_its_own_name_and_secrets_that_are_fields(name: str) -> None:
    kind = kind_named(name)
    assert kind.name == name
    assert issubclass(kind.settings, TargetSettings)
    assert kind.settings.secrets <= set(kind.settings.__struct_fields__)


def test_what_is_no_kind_is_refused() -> None:
    for name in ("seam", "pigeon", "../kafka", ""):
        with pytest.raises(InvalidInput) as refused:
            kind_named(name)
        assert refused.value.argument == "type"


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakebed.events.targets.kafka", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "aiokafka"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    monkeypatch.delattr(targets, "kafka", raising=False)
    with pytest.raises(NotSupported, match=r"lakebed\[targets-kafka\]"):
        kind_named("kafka")


def test_every_kind_has_an_extra() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {f"targets-{name}" for name, library in CLIENT_LIBRARIES.items() if library} - {
        f"targets-{name}" for name in WITHOUT_EXTRA
    }
    assert {name for name in extras if name.startswith("targets-")} == wanted
    assert set(extras["targets"]) == {one for name in wanted for one in extras[name]}

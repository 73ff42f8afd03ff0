"""The setting for commit validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.catalog.validation import ValidationLevel
from lakebed.core.clock import ManualClock
from lakebed.core.settings import CommitValidation, ServerSettings, Settings, TablesSettings
from lakebed.server import composition
from lakebed.server.catalog import CatalogServices, wire_catalog
from lakebed.server.metrics import Metrics
from lakebed.server.stores.identity import establish_identity
from tests.catalog.appends import appended
from tests.catalog.harness import name, open_catalog
from tests.objects.stores import opened_store
from tests.wire.iceberg.lake import wire_lake


def test_settings_have_every_validation_level() -> None:
    assert {level.value for level in CommitValidation} == {level.value for level in ValidationLevel}
    assert ValidationLevel(TablesSettings().validation) is ValidationLevel.STANDARD


@pytest.mark.parametrize("level", CommitValidation)
async def test_catalog_uses_the_configured_validation_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: CommitValidation
) -> None:
    wired: list[object] = []

    def recording_wire_catalog(*parts: Any, **options: Any) -> CatalogServices:  # Any: as the server calls it
        wired.append(options["validation"])
        return wire_catalog(*parts, **options)

    monkeypatch.setattr(composition, "wire_catalog", recording_wire_catalog)
    settings = Settings(server=ServerSettings(data=tmp_path / "data"), tables=TablesSettings(validation=level))
    metrics = Metrics(tmp_path / "run", 0)
    async with composition.compose(settings, establish_identity(settings), metrics):
        assert wired == [ValidationLevel(level)]
    metrics.close()


@pytest.mark.parametrize(("level", "status"), [(ValidationLevel.STANDARD, 200), (ValidationLevel.STRICT, 400)])
async def test_strict_validation_requires_carried_over_files_to_exist(
    tmp_path: Path, level: ValidationLevel, status: int
) -> None:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as store:
        catalog = await open_catalog(store)
        await catalog.create()
        await catalog.commit(name(), *await appended(catalog, name()))
        (lost,) = [key for key in await catalog.keys_in() if "/data/" in key]
        await store.delete("lake", lost)
        updates = await appended(catalog, name())
        lake = wire_lake(store, validation=level)
        path = "/lake/namespaces/ns/tables/t"
        answer = await lake.call("POST", path, {"requirements": [], "updates": updates})
        assert answer.status == status

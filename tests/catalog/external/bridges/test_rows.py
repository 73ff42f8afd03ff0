from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.external.bridges.service import Bridges
from lakebed.catalog.external.remote.model import AuthKind, RemoteAuth, RemoteSecrets
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AlreadyExists
from lakebed.core.secrets import Secret
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import CatalogHarness, name
from tests.objects.stores import ROOT

from .external_tables import OPERATED, POLLED

BEARER = msgspec.structs.replace(POLLED, auth=RemoteAuth(kind=AuthKind.BEARER))
TOKEN = RemoteSecrets(token=Secret("t0k3n-of-theirs"))


def bridges_of(catalog: CatalogHarness) -> Bridges:
    return extended(catalog).tables.bridges


async def has_bridge(catalog: CatalogHarness, identifier: Identifier) -> bool:
    return (await bridges_of(catalog).get(ROOT, "lake", identifier)).bridge is not None


async def rename(
    catalog: CatalogHarness, source: Identifier, target: Identifier, kind: EntryKind = EntryKind.TABLE
) -> None:
    await catalog.renaming.rename(Mutation(ROOT), "lake", source, target, kind)


@pytest.mark.parametrize("target", [name("u"), name("t", "other"), name("u", "other")], ids=str)
async def test_bridge_is_renamed_with_its_table_and_keeps_its_secrets(
    catalog: CatalogHarness, target: Identifier
) -> None:
    bridges = bridges_of(catalog)
    await catalog.namespace("other")
    await catalog.create()
    made = (await bridges.configure(ROOT, "lake", name(), BEARER, TOKEN)).bridge
    assert made is not None
    await rename(catalog, name(), target)
    moved = await bridges.get(ROOT, "lake", target)
    assert moved.bridge is not None
    assert (moved.bridge.revision, moved.bridge.config) == (made.revision, made.config)
    assert bridges.secrets_of(moved.bridge) == TOKEN
    assert not await has_bridge(catalog, name())
    # And back again.
    await rename(catalog, target, name())
    assert await has_bridge(catalog, name())


async def test_table_with_a_bridge_is_not_renamed_to_a_name_with_another(
    catalog: CatalogHarness,
) -> None:
    await catalog.create()
    await bridges_of(catalog).configure(ROOT, "lake", name(), OPERATED)
    await bridges_of(catalog).configure(ROOT, "lake", name("u"), POLLED)
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match="both names have a bridge"):
            await rename(catalog, name(), name("u"))
    await bridges_of(catalog).remove(ROOT, "lake", name("u"))
    await rename(catalog, name(), name("u"))
    assert await has_bridge(catalog, name("u"))


async def test_table_without_a_bridge_gets_the_bridge_of_its_new_name(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await bridges_of(light_catalog).configure(ROOT, "lake", name("u"), OPERATED)
    await rename(light_catalog, name(), name("u"))
    assert await has_bridge(light_catalog, name("u"))


async def test_table_renamed_to_its_own_name_keeps_its_bridge(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await bridges_of(light_catalog).configure(ROOT, "lake", name(), OPERATED)
    await rename(light_catalog, name(), name())
    assert await has_bridge(light_catalog, name())


async def test_bridge_under_the_name_of_a_view_stays(light_catalog: CatalogHarness) -> None:
    await light_catalog.create_view("v")
    await bridges_of(light_catalog).configure(ROOT, "lake", name("v"), OPERATED)
    await rename(light_catalog, name("v"), name("w"), EntryKind.VIEW)
    assert await has_bridge(light_catalog, name("v"))
    assert not await has_bridge(light_catalog, name("w"))

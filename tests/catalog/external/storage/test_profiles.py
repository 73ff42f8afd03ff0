"""Storage profiles in the metadata store."""

from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.catalog.model import Catalog
from lakebed.catalog.rows import CATALOG, catalog_from
from lakebed.core.errors import InvalidInput
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.net.hosts import AllowedHosts
from tests.catalog.harness import CatalogHarness

from .profiles import AWS, MINIO


def profiles_on(meta: MetaStore, default: str = "", own: str | None = None) -> StorageProfiles:
    hosts = AllowedHosts(["127.0.0.1:9000"], setting="external_storage.hosts")
    return StorageProfiles(meta, hosts, credentials=["minio"], default_credentials=default, own_bucket=own)


async def put(meta: MetaStore, profile: StorageProfile) -> Catalog:
    """Store the profile of the catalog `lake`; the catalog as a request then reads it."""
    row = await meta.row(CATALOG, "lake")
    assert row is not None

    async def work(tx: Transaction) -> None:
        await profiles_on(meta).put(tx, catalog_from(row).id, profile, 5)

    await meta.transact(work)
    changed = await meta.row(CATALOG, "lake")
    assert changed is not None
    return catalog_from(changed)


async def test_profile_is_stored_and_replaced(catalog: CatalogHarness) -> None:
    meta = catalog.store.meta
    profiles = profiles_on(meta)
    before = await put(meta, MINIO)
    assert (await profiles.of(before)).profile == MINIO
    after = await put(meta, AWS)
    assert after.storage_revision != before.storage_revision
    assert (await profiles.of(after)).profile == AWS
    assert await profiles.of_all(meta) == {after.id: AWS}


async def test_cached_profile_needs_no_read(light_catalog: CatalogHarness) -> None:
    meta = light_catalog.store.meta
    profiles = profiles_on(meta)
    found = await put(meta, MINIO)
    first = await profiles.of(found)

    async def lose(tx: Transaction) -> None:
        await tx.run("DELETE FROM catalog_storage")

    await meta.transact(lose)
    assert await profiles.of(found) is first


async def test_catalog_in_a_bucket_of_this_server_has_no_revision(light_catalog: CatalogHarness) -> None:
    row = await light_catalog.store.meta.row(CATALOG, "lake")
    assert row is not None
    assert catalog_from(row).storage_revision is None


async def test_unknown_credential_set_is_rejected(light_catalog: CatalogHarness) -> None:
    profile = msgspec.structs.replace(MINIO, credentials="other")
    with pytest.raises(InvalidInput, match=r"\[external_storage\.credentials\.other\]"):
        profiles_on(light_catalog.store.meta).check(profile, "lake")


async def test_profile_without_credentials_requires_a_default_or_a_role(light_catalog: CatalogHarness) -> None:
    meta, profile = light_catalog.store.meta, msgspec.structs.replace(MINIO, credentials="")
    with pytest.raises(InvalidInput, match="storageName or roleArn is required"):
        profiles_on(meta).check(profile, "lake")
    profiles_on(meta, default="minio").check(profile, "lake")
    profiles_on(meta).check(AWS, "lake")


async def test_object_store_of_the_server_is_rejected(light_catalog: CatalogHarness) -> None:
    profiles = profiles_on(light_catalog.store.meta, own="/127.0.0.1:9000/own")
    profiles.check(MINIO, "lake")
    with pytest.raises(InvalidInput, match="object store of this server"):
        profiles.check(MINIO, "own")

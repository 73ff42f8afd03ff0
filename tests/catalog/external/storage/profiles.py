"""Storage profiles, a catalog over external storage and its stores, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from lakebed.catalog.external.storage.files import ExternalFiles, KnownFiles
from lakebed.catalog.external.storage.model import CatalogStorage, StorageProfile
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.catalog.external.storage.stores import ExternalStores
from lakebed.catalog.model import Catalog, CatalogKind, pack_directories, pack_properties
from lakebed.core.clock import ManualClock
from lakebed.core.ids import BucketId
from lakebed.objects.buckets.bucket import Bucket, BucketSettings, encode_settings, external_bucket_name
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.seam import ObjectStorage

MINIO = StorageProfile(endpoint="http://127.0.0.1:9000", credentials="minio", path_style=True)
AWS = StorageProfile(region="eu-west-1", role_arn="arn:aws:iam::123456789012:role/lake")


def external_catalog(profile: StorageProfile = MINIO, *, revision: str = "1", name: str = "ext") -> Catalog:
    bucket = Bucket(
        BucketId(7),
        external_bucket_name(profile.authority, "lake"),
        "000000000000",
        "us-east-1",
        0,
        "Unversioned",
        encode_settings(BucketSettings(tables=True)),
    )
    return Catalog(
        bucket,
        3,
        name,
        "wh/",
        CatalogKind.INTERNAL,
        pack_directories(["more/"]),
        pack_properties({}),
        0,
        restricts=False,
        is_federated=False,
        storage_revision=revision,
    )


class FixedProfiles:
    """Returns one profile. Stands in for StorageProfiles."""

    def __init__(self, profile: StorageProfile = MINIO) -> None:
        self.profile = profile

    async def of(self, catalog: Catalog) -> CatalogStorage:
        assert catalog.storage_revision is not None
        return CatalogStorage(catalog.id, catalog.storage_revision, self.profile)


class OneStore:
    """Opens one store. Stands in for ExternalStores."""

    def __init__(self, storage: ObjectStorage) -> None:
        self.storage = storage

    @asynccontextmanager
    async def use(self, storage: CatalogStorage, bucket: str) -> AsyncIterator[ObjectStorage]:
        assert bucket == "lake"
        yield self.storage


def files_on(storage: ObjectStorage, catalog: Catalog | None = None) -> ExternalFiles:
    """The files of a catalog in a store, with one retry."""
    policy = RetryPolicy(max_attempts=2, base_seconds=0.0, max_pause_seconds=0.0, timeout_seconds=5.0)
    return ExternalFiles(
        cast(StorageProfiles, FixedProfiles()),
        cast(ExternalStores, OneStore(storage)),
        KnownFiles(),
        Retrier(policy, ManualClock(0)),
        catalog or external_catalog(),
    )

"""Stores the storage profiles of catalogs, and finds the profile of a catalog."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import uuid4

from lakebed.core.errors import Corrupted, InvalidInput
from lakebed.governance.validated_cache import ValidatedCache
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.net.hosts import AllowedHosts
from lakebed.objects.buckets.bucket import external_bucket_name

from ...model import Catalog
from .model import CatalogStorage, StorageProfile, decode_profile, encode_profile
from .validation import check_profile

_PUT: Final = (
    "INSERT INTO catalog_storage (catalog, revision, credentials, profile, created_ms, updated_ms)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (catalog) DO UPDATE SET revision = excluded.revision,"
    " credentials = excluded.credentials, profile = excluded.profile, updated_ms = excluded.updated_ms"
)
_FIND: Final = "SELECT revision, profile FROM catalog_storage WHERE catalog = ?"
_ALL: Final = "SELECT catalog, revision, profile FROM catalog_storage ORDER BY catalog"

_CACHED: Final = 4096


class StorageProfiles:
    """The storage profiles of catalogs."""

    def __init__(
        self,
        meta: MetaStore,
        hosts: AllowedHosts,
        *,
        credentials: Collection[str] = (),
        default_credentials: str = "",
        allow_http: bool = False,
        own_bucket: str | None = None,
    ) -> None:
        """`credentials` are the names of the credential sets that profiles may name.

        `own_bucket` is the external bucket name of the bucket in which this server stores its objects, if it does.
        """
        self._meta = meta
        self._hosts = hosts
        self._credentials = credentials
        self._default_credentials = default_credentials
        self._allow_http = allow_http
        self._own_bucket = own_bucket
        self._cache: ValidatedCache[str, CatalogStorage] = ValidatedCache(_CACHED)
        """By catalog, each of a revision."""

    def check(self, profile: StorageProfile, bucket: str) -> None:
        """Return if the profile is valid and this server can use it. Raises InvalidInput that names the field."""
        check_profile(profile, self._hosts, allow_http=self._allow_http)
        if external_bucket_name(profile.authority, bucket) == self._own_bucket:
            raise InvalidInput(
                f"the bucket is the object store of this server: choose another one. bucket={bucket}",
                argument="allowedLocations",
            )
        name = profile.credentials or self._default_credentials
        if name and name not in self._credentials:
            raise InvalidInput(
                f"no such credential set: an operator can add [external_storage.credentials.{name}]."
                f" storageName={name}",
                argument="storageName",
            )
        if not name and not profile.role_arn:
            raise InvalidInput(
                "storageName or roleArn is required: this server has no default credentials for external storage",
                argument="storageName",
            )

    async def put(self, tx: Transaction, catalog_id: int, profile: StorageProfile, now_ms: int) -> None:
        """Store the profile of a catalog, as a step of a transaction. `check` it before."""
        revision = uuid4().hex
        await tx.run(_PUT, catalog_id, revision, profile.credentials, encode_profile(profile), now_ms, now_ms)

    async def of(self, catalog: Catalog) -> CatalogStorage:
        """The profile of a catalog over external storage, at the revision in its row. Mostly cached."""
        revision = catalog.storage_revision
        if revision is None:
            raise ValueError("the catalog has no storage profile")
        known = self._cache.get(str(catalog.id), revision)
        if known is not None:
            return known
        row = await self._meta.row(_FIND, catalog.id)
        if row is None:
            raise Corrupted(f"storage profile is missing. catalog={catalog.name}")
        # The row may be newer than the catalog's: then it is cached under its own revision.
        found = CatalogStorage(catalog.id, row[0], decode_profile(row[1]))
        return self._cache.put(str(catalog.id), found.revision, found)

    async def of_all(self, reader: Reader) -> dict[int, StorageProfile]:
        """All profiles, by the ids of their catalogs. Without authorization."""
        return {row[0]: decode_profile(row[2]) for row in await reader.rows(_ALL)}

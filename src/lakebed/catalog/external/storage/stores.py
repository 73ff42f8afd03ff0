"""Opens external object stores with the credentials of their storage profiles, and keeps them open.

One store per catalog and revision of its profile: rotated credentials and changed profiles take effect with the next
request. Stores of earlier revisions are closed when the last request on them ends.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.core.settings import ExternalStorageSettings
from lakebed.governance.validated_cache import ValidatedCache
from lakebed.net.hosts import AllowedHosts
from lakebed.storage.credentials import CredentialProvider, HostEnvironment, RefreshingCredentials
from lakebed.storage.credentials.chain import default_chain
from lakebed.storage.credentials.inline import InlineSource
from lakebed.storage.credentials.model import Credentials, CredentialSource
from lakebed.storage.credentials.sts import AssumedRole, AssumedRoleSource, TokenService
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3.connect import connect_s3
from lakebed.storage.s3.options import S3Options
from lakebed.storage.seam import ObjectStorage

from .model import CatalogStorage, StorageProfile

_OPEN_STORES: Final = 128
_CONCURRENCY: Final = 64
_SESSION_NAME: Final = "lakebed-catalog"
_DEFAULT_REGION: Final = "us-east-1"


@dataclass(slots=True)
class _OpenStore:
    """An open store, with the requests that use it."""

    storage: ObjectStorage
    users: int = 0
    is_retired: bool = False


class ExternalStores:
    """The external object stores of this process."""

    def __init__(
        self, settings: ExternalStorageSettings, hosts: AllowedHosts, clock: Clock, environment: HostEnvironment
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._clock = clock
        self._environment = environment
        self._open: OrderedDict[tuple[int, str, str], _OpenStore] = OrderedDict()
        self._signers: ValidatedCache[str, CredentialProvider] = ValidatedCache(_OPEN_STORES)
        self._opening = asyncio.Lock()
        """Opening makes no request to the store."""

    @asynccontextmanager
    async def use(self, storage: CatalogStorage, bucket: str) -> AsyncIterator[ObjectStorage]:
        """A bucket of the store. Raises Unavailable if the settings no longer allow the store's hosts.

        The store stays open while it is used, even if a newer revision of the profile replaces it meanwhile.
        """
        key = (storage.catalog, storage.revision, bucket)
        store = self._open.get(key)
        if store is None:
            store = await self._opened(key, storage.profile)
        self._open.move_to_end(key)
        store.users += 1
        try:
            yield store.storage
        finally:
            store.users -= 1
            if store.is_retired and not store.users:
                await asyncio.shield(store.storage.close())

    async def close(self) -> None:
        """Close all stores."""
        stores = list(self._open.values())
        self._open.clear()
        for store in stores:
            await store.storage.close()

    async def _opened(self, key: tuple[int, str, str], profile: StorageProfile) -> _OpenStore:
        async with self._opening:
            known = self._open.get(key)
            if known is not None:
                return known
            store = self._open[key] = _OpenStore(await self._connect(profile, key[2]))
            for other in [each for each in self._open if each[0] == key[0] and each[1] != key[1]]:
                await self._retire(other)
            while len(self._open) > _OPEN_STORES:
                await self._retire(next(iter(self._open)))
            return store

    async def _retire(self, key: tuple[int, str, str]) -> None:
        store = self._open.pop(key)
        store.is_retired = True
        if not store.users:
            await store.storage.close()

    async def _connect(self, profile: StorageProfile, bucket: str) -> ObjectStorage:
        endpoint = profile.server_endpoint
        if endpoint is not None:
            check_still_allowed(self._hosts, endpoint)
        options = S3Options(
            bucket=bucket,
            region=profile.region or _DEFAULT_REGION,
            endpoint=endpoint,
            path_style=profile.uses_path_style,
            allow_http=True,  # checked with the profile
            max_concurrency=_CONCURRENCY,
            read_timeout_seconds=self._settings.timeout,
        )
        # Without a probe, which would write into the bucket: metadata files have unique names.
        return await connect_s3(
            options, self._environment, credentials=self.credentials_of(profile), capabilities=CONDITIONS_TRUSTED
        )

    def credentials_of(self, profile: StorageProfile) -> CredentialProvider:
        """The server's own credentials for a store: those of the profile's role, or of its credential set."""
        return RefreshingCredentials(self.source(profile), self._clock)

    def source(self, profile: StorageProfile) -> CredentialSource:
        """The source of the server's own credentials for a store."""
        base = self.base_source(profile)
        if not profile.role_arn:
            return base
        role = AssumedRole(profile.role_arn, _SESSION_NAME, external_id=profile.external_id or None)
        return AssumedRoleSource(base, self.token_service(profile), role, "storage profile role")

    async def signing_credentials(self, storage: CatalogStorage) -> Credentials:
        """The server's own credentials for a store, valid now, to sign a request with."""
        provider = self._signers.get(str(storage.catalog), storage.revision)
        if provider is None:
            provider = self._signers.put(str(storage.catalog), storage.revision, self.credentials_of(storage.profile))
        return await provider.credentials()

    def base_source(self, profile: StorageProfile) -> CredentialSource:
        """The credentials that assume the profile's role. Raises Unavailable if the settings no longer have them."""
        name = profile.credentials or self._settings.default_credentials
        if not name:
            return default_chain(self._environment, region=profile.region or None)
        known = self._settings.credentials.get(name)
        if known is None:
            raise Unavailable(
                f"credential set of the catalog's storage profile is missing:"
                f" add [external_storage.credentials.{name}] to the settings, or change the profile. storageName={name}"
            )
        if known.use_chain:
            return default_chain(self._environment, region=profile.region or None)
        return InlineSource(known.access_key_id, known.secret_access_key, known.session_token)

    def token_service(self, profile: StorageProfile) -> TokenService:
        """The STS endpoint of a store. Raises Unavailable if the settings no longer allow its host."""
        endpoint = profile.token_endpoint
        if endpoint is not None:
            check_still_allowed(self._hosts, endpoint)
        return TokenService(self._environment, profile.region or _DEFAULT_REGION, endpoint)


def check_still_allowed(hosts: AllowedHosts, endpoint: str) -> None:
    """Raise Unavailable unless the settings still allow the host of an endpoint."""
    try:
        hosts.check(endpoint)
    except LakebedError as error:
        raise Unavailable(f"the settings no longer allow the catalog's object store: {error}") from error

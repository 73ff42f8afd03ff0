"""Vends credentials of external S3 stores: temporary keys from the store's STS, limited to the files of one table.

Keys are cached by principal, table and permission for half of their lifetime, because STS throttles. A principal never
gets keys that were requested for another.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import uuid4

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.delegation import AccessDelegation
from lakebed.core.errors import InvalidInput, LakebedError, NotSupported, Throttled, Unauthenticated, Unavailable
from lakebed.governance.delegation.delegations import DelegationLog, DelegationPurpose, DelegationRecord
from lakebed.storage.credentials.model import Credentials
from lakebed.storage.credentials.sts import AssumedRole

from ...model import Catalog
from .files import store_failure
from .model import CatalogStorage, StorageProfile
from .profiles import StorageProfiles
from .session_policy import session_policy
from .stores import ExternalStores

MIN_SECONDS: Final = 900
MAX_SECONDS: Final = 43_200
"""The bounds of STS for the lifetime of a session."""

SIGNATURE_MS: Final = 900_000
"""How long S3 accepts a signature."""

MIN_LEFT_MS: Final = 300_000
"""The remaining lifetime with which cached keys are still vended while STS throttles."""

_CACHED: Final = 50_000
_ANY_ROLE: Final = "arn:aws:iam::000000000000:role/lakebed"
"""For stores such as MinIO, whose AssumeRole requires a role and ignores it."""
_SESSION_NAME: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)


class StoreKey(NamedTuple):
    """Temporary keys of an external store."""

    credentials: Credentials
    issued_ms: int
    expires_ms: int


class _CacheKey(NamedTuple):
    catalog: int
    revision: str
    principal: str
    bucket: str
    directories: tuple[str, ...]
    writes: bool


class ExternalVending:
    """Vends credentials of external stores and records them."""

    def __init__(
        self, profiles: StorageProfiles, stores: ExternalStores, log: DelegationLog, clock: Clock, *, ttl_seconds: float
    ) -> None:
        self._profiles = profiles
        self._stores = stores
        self._log = log
        self._clock = clock
        self._ttl_seconds = int(min(max(ttl_seconds, MIN_SECONDS), MAX_SECONDS))
        self._cache: OrderedDict[_CacheKey, StoreKey] = OrderedDict()
        self._requests: dict[_CacheKey, asyncio.Task[StoreKey]] = {}

    async def capability(self, catalog: Catalog) -> AccessDelegation:
        """What the catalog's store makes possible: stores without STS only sign."""
        profile = (await self._profiles.of(catalog)).profile
        return AccessDelegation.VENDED if has_token_service(profile) else AccessDelegation.SIGNING

    async def vend(
        self,
        principal: Principal,
        purpose: DelegationPurpose,
        catalog: Catalog,
        *,
        table: str,
        directories: Sequence[str],
        writes: bool,
    ) -> StoreKey:
        """Keys for these directories. Raises NotSupported without STS, Throttled, Unavailable."""
        storage = await self._profiles.of(catalog)
        if not has_token_service(storage.profile):
            raise NotSupported(f"the catalog's object store has no STS to vend credentials. catalog={catalog.name}")
        identity = principal.user_id or principal.arn
        wanted = _CacheKey(
            catalog.id, storage.revision, identity, catalog.bucket_name, tuple(sorted(directories)), writes
        )
        key = await self._key(wanted, storage, catalog, principal.name)
        key_id = key.credentials.access_key_id
        self._record(key_id, principal, purpose, catalog, table, directories, key, writes=writes)
        return key

    async def signer(
        self,
        principal: Principal,
        purpose: DelegationPurpose,
        catalog: Catalog,
        *,
        table: str,
        directories: Sequence[str],
        writes: bool,
    ) -> Credentials:
        """The server's own credentials, to sign one request that was checked.

        The record gets an id of its own: the access key is the same for all signatures. Raises Unavailable.
        """
        storage = await self._profiles.of(catalog)
        try:
            credentials = await self._stores.signing_credentials(storage)
        except LakebedError as error:
            raise store_failure(error, catalog, "sign a request") from error
        now_ms = self._clock.now_ms()
        signed = StoreKey(credentials, now_ms, now_ms + SIGNATURE_MS)
        self._record(f"signature-{uuid4().hex}", principal, purpose, catalog, table, directories, signed, writes=writes)
        return credentials

    def _record(
        self,
        key_id: str,
        principal: Principal,
        purpose: DelegationPurpose,
        catalog: Catalog,
        table: str,
        directories: Sequence[str],
        key: StoreKey,
        *,
        writes: bool,
    ) -> None:
        self._log.enqueue(
            DelegationRecord(
                key_id,
                purpose,
                principal.name,
                principal.user_id,
                principal.caller_arn,
                principal.key.id if principal.key is not None else "",
                table,
                catalog.bucket.name,
                tuple(directories),
                writes,
                key.issued_ms,
                key.expires_ms,
            )
        )

    async def _key(self, wanted: _CacheKey, storage: CatalogStorage, catalog: Catalog, principal: str) -> StoreKey:
        known = self._cache.get(wanted)
        now_ms = self._clock.now_ms()
        if known is not None and now_ms < (known.issued_ms + known.expires_ms) // 2:
            self._cache.move_to_end(wanted)
            return known
        request = self._requests.get(wanted)
        if request is None:
            # One request for all callers that wait; a cancelled one does not cancel it for the others.
            request = asyncio.get_running_loop().create_task(self._requested(wanted, storage, principal))
            self._requests[wanted] = request
            request.add_done_callback(lambda _: self._requests.pop(wanted, None))
        try:
            return await asyncio.shield(request)
        except (Throttled, Unavailable) as error:
            if known is not None and now_ms + MIN_LEFT_MS < known.expires_ms:
                return known
            raise store_failure(error, catalog, "vend credentials") from error
        except InvalidInput as error:
            raise Unavailable(
                f"the STS of the catalog's object store rejects the role or the session policy."
                f" catalog={catalog.name} reason={error}"
            ) from error
        except LakebedError as error:
            raise store_failure(error, catalog, "vend credentials") from error

    async def _requested(self, wanted: _CacheKey, storage: CatalogStorage, principal: str) -> StoreKey:
        profile = storage.profile
        source = self._stores.base_source(profile)
        base = await source.load()
        if base is None:
            raise Unauthenticated(f"no credentials found. source={source.name}")
        issued_ms = self._clock.now_ms()
        found = await self._stores.token_service(profile).assume_role(
            base,
            AssumedRole(
                profile.role_arn or _ANY_ROLE,
                session_name(principal),
                duration_seconds=self._ttl_seconds,
                external_id=profile.external_id or None,
                policy=_policy(wanted, profile),
            ),
            "storage profile",
        )
        expires_ms = found.expires_ms or issued_ms + self._ttl_seconds * 1000
        key = self._cache[wanted] = StoreKey(found, issued_ms, expires_ms)
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return key


def has_token_service(profile: StorageProfile) -> bool:
    """Whether the store has STS: AWS requires a role, other stores take any."""
    return not profile.sts_unavailable and bool(profile.role_arn or profile.token_endpoint)


def session_name(principal: str) -> str:
    """The session name in the store's audit log: at most 64 of the characters that STS allows, unique by a hash."""
    plain = _SESSION_NAME.sub("-", principal)
    if plain == principal and len(plain) <= 54:
        return f"lakebed-{plain}"
    return f"lakebed-{plain[:40]}-{hashlib.sha256(principal.encode()).hexdigest()[:12]}"


def _policy(wanted: _CacheKey, profile: StorageProfile) -> str:
    partition = profile.role_arn.split(":")[1] if profile.role_arn else "aws"
    encrypt, decrypt = profile.kms_keys
    return session_policy(
        wanted.bucket,
        wanted.directories,
        writes=wanted.writes,
        partition=partition,
        encryption_keys=encrypt,
        decryption_keys=decrypt,
    )

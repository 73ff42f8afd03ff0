"""Credentials of external stores, from a scripted STS."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import msgspec
import pytest

from lakebed.catalog.external.storage.model import CatalogStorage, StorageProfile
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.catalog.external.storage.stores import ExternalStores
from lakebed.catalog.external.storage.vending import (
    MIN_LEFT_MS,
    ExternalVending,
    StoreKey,
    has_token_service,
    session_name,
)
from lakebed.catalog.model import Catalog
from lakebed.core.access import Principal, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.delegation import AccessDelegation
from lakebed.core.errors import AccessDenied, InvalidInput, LakebedError, NotSupported, Throttled, Unavailable
from lakebed.core.secrets import Secret
from lakebed.governance.delegation.delegations import (
    DelegationKind,
    DelegationLog,
    DelegationPurpose,
    DelegationRecord,
)
from lakebed.storage.credentials import Credentials, CredentialSource
from lakebed.storage.credentials.inline import InlineSource
from lakebed.storage.credentials.sts import AssumedRole, TokenService

from .profiles import AWS, MINIO, FixedProfiles, external_catalog

TTL_MS = 3_600_000
PURPOSE = DelegationPurpose(DelegationKind.VENDED, "req", "127.0.0.1", "ext", "ns", "t")
ALICE = root_of("000000000000")


class ScriptedTokenService:
    """Assumes roles; raises `failure` while it is set."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.requests: list[AssumedRole] = []
        self.failure: LakebedError | None = None

    async def assume_role(self, base: Credentials, role: AssumedRole, source: str) -> Credentials:
        await asyncio.sleep(0)
        self.requests.append(role)
        if self.failure is not None:
            raise self.failure
        expires_ms = self.clock.now_ms() + role.duration_seconds * 1000
        number = len(self.requests)
        return Credentials(f"KEY{number}", Secret("secret"), Secret("token"), expires_ms)


class ScriptedStores:
    """Stands in for ExternalStores."""

    def __init__(self, service: ScriptedTokenService) -> None:
        self.service = service

    def base_source(self, profile: StorageProfile) -> CredentialSource:
        return InlineSource("BASE", Secret("base"))

    def token_service(self, profile: StorageProfile) -> TokenService:
        return cast(TokenService, self.service)

    async def signing_credentials(self, storage: CatalogStorage) -> Credentials:
        return Credentials("BASE", Secret("base"))


class RecordedLog:
    def __init__(self) -> None:
        self.records: list[DelegationRecord] = []

    def enqueue(self, record: DelegationRecord) -> None:
        self.records.append(record)


class Vending:
    """Vending with its fakes."""

    def __init__(self, profile: StorageProfile = MINIO, ttl_seconds: float = 3600) -> None:
        self.clock = ManualClock(1_000_000)
        self.service = ScriptedTokenService(self.clock)
        self.log = RecordedLog()
        self.vending = ExternalVending(
            cast(StorageProfiles, FixedProfiles(profile)),
            cast(ExternalStores, ScriptedStores(self.service)),
            cast(DelegationLog, self.log),
            self.clock,
            ttl_seconds=ttl_seconds,
        )

    async def vend(
        self,
        catalog: Catalog | None = None,
        *,
        principal: Principal = ALICE,
        directories: tuple[str, ...] = ("wh/t/",),
        writes: bool = True,
    ) -> StoreKey:
        return await self.vending.vend(
            principal, PURPOSE, catalog or external_catalog(), table="t1", directories=directories, writes=writes
        )


async def test_keys_are_limited_to_the_directories_of_the_table() -> None:
    vending = Vending()
    key = await vending.vend()
    (role,) = vending.service.requests
    assert json.loads(role.policy or "")["Statement"][0]["Resource"] == ["arn:aws:s3:::lake/wh/t/*"]
    assert (role.arn, role.duration_seconds) == ("arn:aws:iam::000000000000:role/lakebed", 3600)
    assert (key.credentials.access_key_id, key.expires_ms) == ("KEY1", 1_000_000 + TTL_MS)


async def test_role_and_external_id_of_the_profile_are_used() -> None:
    vending = Vending(msgspec.structs.replace(AWS, external_id="ex", current_kms_key="arn:aws:kms:::k"))
    await vending.vend()
    (role,) = vending.service.requests
    assert (role.arn, role.external_id) == (AWS.role_arn, "ex")
    assert "arn:aws:kms:::k" in (role.policy or "")


@pytest.mark.parametrize(("seconds", "used"), [(60, 900), (3600, 3600), (10**6, 43_200)])
async def test_lifetime_is_in_the_bounds_of_sts(seconds: float, used: int) -> None:
    vending = Vending(ttl_seconds=seconds)
    await vending.vend()
    assert vending.service.requests[0].duration_seconds == used


async def test_keys_are_reused_for_half_of_their_lifetime() -> None:
    vending = Vending()
    first = await vending.vend()
    vending.clock.advance((TTL_MS // 2 - 1) / 1000)
    assert await vending.vend() == first
    vending.clock.advance(0.001)
    assert await vending.vend() != first
    assert len(vending.service.requests) == 2


async def test_keys_are_not_shared_between_principals_tables_permissions_and_revisions() -> None:
    vending = Vending()
    await vending.vend()
    await vending.vend(principal=root_of("000000000000", "OTHERKEY"))
    alone = len(vending.service.requests)
    await vending.vend(principal=root_of("111111111111"))
    await vending.vend(directories=("wh/u/",))
    await vending.vend(writes=False)
    await vending.vend(external_catalog(revision="2"))
    await vending.vend(external_catalog()._replace(id=9))
    assert alone == 1
    assert len(vending.service.requests) == 6


async def test_concurrent_requests_wait_for_one() -> None:
    vending = Vending()
    keys = await asyncio.gather(*(vending.vend() for _ in range(50)))
    assert len(vending.service.requests) == 1
    assert len(set(keys)) == 1


async def test_cancelled_request_does_not_cancel_the_others() -> None:
    vending = Vending()
    first = asyncio.create_task(vending.vend())
    second = asyncio.create_task(vending.vend())
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).credentials.access_key_id == "KEY1"


async def test_keys_with_enough_time_left_are_vended_while_sts_throttles() -> None:
    vending = Vending()
    first = await vending.vend()
    vending.service.failure = Throttled("slow down")
    vending.clock.advance((TTL_MS - MIN_LEFT_MS - 1) / 1000)
    assert await vending.vend() == first
    vending.clock.advance(0.001)
    with pytest.raises(Throttled, match="catalog=ext bucket=lake step='vend credentials'"):
        await vending.vend()


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Unavailable("no response"), "object store is unavailable"),
        (AccessDenied("AccessDenied"), "lack a permission"),
        (InvalidInput("PackedPolicyTooLarge"), "rejects the role or the session policy"),
    ],
)
async def test_failure_of_sts_names_the_catalog(failure: LakebedError, message: str) -> None:
    vending = Vending()
    vending.service.failure = failure
    with pytest.raises(Unavailable, match=message) as caught:
        await vending.vend()
    assert "catalog=ext" in str(caught.value)


async def test_failed_request_is_repeated_by_the_next_caller() -> None:
    vending = Vending()
    vending.service.failure = Unavailable("no response")
    with pytest.raises(Unavailable):
        await vending.vend()
    vending.service.failure = None
    assert (await vending.vend()).credentials.access_key_id == "KEY2"


async def test_vended_keys_are_recorded_with_their_scope() -> None:
    vending = Vending()
    await vending.vend(writes=False)
    (record,) = vending.log.records
    assert (record.id, record.bucket, record.directories) == ("KEY1", "/127.0.0.1:9000/lake", ("wh/t/",))
    assert (record.writes, record.table_id) == (False, "t1")


async def test_signatures_are_recorded_one_by_one() -> None:
    vending = Vending(StorageProfile(endpoint="https://s3.example", credentials="x", sts_unavailable=True))
    for _ in range(2):
        await vending.vending.signer(
            ALICE, PURPOSE, external_catalog(), table="t1", directories=("wh/t/",), writes=False
        )
    first, second = vending.log.records
    assert first.id.startswith("signature-")
    assert first.id != second.id


async def test_store_without_sts_only_signs() -> None:
    vending = Vending(StorageProfile(endpoint="https://s3.example", credentials="x", sts_unavailable=True))
    assert await vending.vending.capability(external_catalog()) is AccessDelegation.SIGNING
    with pytest.raises(NotSupported, match="no STS"):
        await vending.vend()
    assert await Vending().vending.capability(external_catalog()) is AccessDelegation.VENDED


def test_aws_without_a_role_has_no_sts() -> None:
    assert has_token_service(AWS)
    assert not has_token_service(StorageProfile(region="eu-west-1", credentials="keys"))


@pytest.mark.parametrize("name", ["alice", "a" * 54, "a" * 55, "alice smith", "ålice", "a/b", "x" * 300])
def test_session_names_are_valid_and_distinct(name: str) -> None:
    made = session_name(name)
    assert len(made) <= 64
    assert made.isascii()
    assert made != session_name(name + "2")

"""Credentials for stream files: their scope, lifetime and reuse."""

from __future__ import annotations

import asyncio
import json

import pytest

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.storage.credentials import Credentials
from lakebed.streams.file_access import CREDENTIAL_SECONDS, MAX_POLICY_CHARS, FileAccess, FileGrant, FileLocation
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.seam import TableBucket

from .world import ACCOUNT, StreamWorld, caller_of

LOCATION = FileLocation("s3://lake/p", "lake", "p/streams", "us-east-1", "https://s3.example", True)
READ = "streams:Read"


class FakeIssuer:
    """Issues numbered credentials and records their session names and policies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.issued: list[tuple[str, str]] = []
        self.failure: LakebedError | None = None

    async def make(self, name: str, policy: str) -> Credentials:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.issued.append((name, policy))
        ends_ms = self._clock.now_ms() + CREDENTIAL_SECONDS * 1000
        return Credentials(f"KEY{len(self.issued)}", Secret("secret"), Secret("token"), ends_ms)


@pytest.fixture
def issuer(light_world: StreamWorld) -> FakeIssuer:
    return FakeIssuer(light_world.clock)


@pytest.fixture
def access(light_world: StreamWorld, issuer: FakeIssuer) -> FileAccess:
    return FileAccess(light_world.clock, light_world.authorizer, light_world.tables, LOCATION, issuer)


def reader(*statements: tuple[str, str], name: str = "ann") -> Caller:
    """A caller with these effects on reading the resources below `streams/`."""
    allowed_statements = [
        {"Effect": effect, "Action": READ, "Resource": f"arn:aws:lakebed:::streams{where}"}
        for effect, where in statements
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": allowed_statements}).encode()
    arn = f"arn:aws:iam::{ACCOUNT}:user/{name}"
    return caller_of(Principal(name, ACCOUNT, arn, policies=(document,) if allowed_statements else ()))


def allowed(issuer: FakeIssuer) -> list[str]:
    """The resources that the last policy allows, relative to the bucket."""
    (statement,) = json.loads(issuer.issued[-1][1])["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "s3:GetObject")
    return [each.removeprefix("arn:aws:s3:::lake/") for each in statement["Resource"]]


async def test_credentials_cover_the_folders_of_readable_tables(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    orders = await light_world.table("orders")
    keyed = await light_world.table("keyed", key=["id"])
    other = await light_world.table("other")
    grant = await access.grant(reader(("Allow", "/fluss/orders"), ("Allow", "/fluss/keyed")))
    assert grant is not None
    assert grant.tables == frozenset({orders.id, keyed.id})
    assert allowed(issuer) == [
        f"p/streams/log/fluss/orders-{orders.id}/*",
        f"p/streams/log/fluss/keyed-{keyed.id}/*",
        f"p/streams/kv/{keyed.id}/*",
    ]
    assert issuer.issued[-1][0] == "user-ann"
    assert grant.covers(orders.id)
    assert not grant.covers(other.id)
    assert not grant.is_expired(light_world.clock.now_ms())
    assert grant.is_expired(grant.until_ms - 1000), "credentials count as expired shortly before their end"


async def test_policy_covers_log_folders(light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer) -> None:
    table = await light_world.table("orders")
    await access.grant(reader(("Allow", "/fluss/*")))
    (folder,) = allowed(issuer)
    for location in (
        LogLocation(TableBucket(table.id, None, 3), "fluss", "orders"),
        LogLocation(TableBucket(table.id, 8, 0), "fluss", "orders", "2026"),
    ):
        assert f"p/streams/{location.folder}/segment".startswith(folder.removesuffix("*"))


async def test_deny_statement_overrides_permission_on_all_tables(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    orders, secrets = await light_world.table("orders"), await light_world.table("secrets")
    caller = reader(("Allow", ""), ("Allow", "/*"), ("Deny", "/fluss/secrets"))
    grant = await access.grant(caller)
    assert grant is not None
    assert grant.tables == frozenset({orders.id})
    assert not await access.covers(caller, secrets.id)
    assert await access.covers(caller, orders.id)
    assert "secrets" not in issuer.issued[-1][1]


async def test_credentials_of_root_cover_later_tables(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    grant = await access.grant(light_world.root)
    assert grant is not None
    assert allowed(issuer) == ["p/streams/*"]
    table = await light_world.table("later")
    assert grant.covers(table.id)


@pytest.mark.parametrize("where", ["", "/fluss/nothing"])
async def test_caller_without_readable_tables_gets_no_credentials(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer, where: str
) -> None:
    table = await light_world.table("orders")
    grant = await access.grant(reader(("Allow", where)))
    assert grant == FileGrant(frozenset(), light_world.clock.now_ms() + CREDENTIAL_SECONDS * 1000)
    assert not grant.covers(table.id)
    assert not issuer.issued


async def test_no_credentials_if_the_policy_would_be_too_large(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    caller = reader(("Allow", "/fluss/*"))
    first = await light_world.table("t0")
    for number in range(1, 60):
        await light_world.table(f"t{number}")
        if not await access.covers(caller, first.id):
            break
    grant = await access.grant(caller)
    assert grant is not None
    assert (grant.credentials, grant.tables) == (None, frozenset())
    assert 10 < number < 59
    assert all(len(policy) <= MAX_POLICY_CHARS for _, policy in issuer.issued)


async def test_credentials_are_reused_until_half_of_their_lifetime(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    await light_world.table("orders")
    caller = reader(("Allow", "/fluss/*"))
    first, second = await asyncio.gather(access.grant(caller), access.grant(caller))
    assert first == second
    light_world.clock.advance(CREDENTIAL_SECONDS / 2 - 1)
    assert await access.grant(caller) == first
    assert len(issuer.issued) == 1
    light_world.clock.advance(1)
    third = await access.grant(caller)
    assert third is not None
    assert third != first
    assert third.until_ms - light_world.clock.now_ms() == CREDENTIAL_SECONDS * 1000


async def test_other_users_and_changed_permissions_get_new_credentials(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    await light_world.table("orders")
    await access.grant(reader(("Allow", "/fluss/*")))
    await access.grant(reader(("Allow", "/fluss/*"), name="bob"))
    assert [name for name, _ in issuer.issued] == ["user-ann", "user-bob"]
    await light_world.table("more")
    await access.grant(reader(("Allow", "/fluss/*")))
    assert len(issuer.issued) == 3
    await access.grant(reader(("Allow", "/fluss/orders")))
    assert len(issuer.issued) == 3, "narrower permissions reuse no wider credentials"
    assert "more" not in issuer.issued[0][1]


async def test_failed_issue_is_reported_and_retried(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    issuer.failure = Unavailable("token service did not answer")
    with pytest.raises(FlussError, match="token service did not answer") as raised:
        await access.grant(light_world.root)
    assert raised.value.code is ErrorCode.SECURITY_TOKEN
    issuer.failure = None
    grant = await access.grant(light_world.root)
    assert grant is not None
    assert grant.credentials is not None


async def test_cancelled_request_does_not_cancel_a_concurrent_one(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    cancelled = asyncio.create_task(access.grant(light_world.root))
    waiting = asyncio.create_task(access.grant(light_world.root))
    while not access._pending:
        await asyncio.sleep(0)
    cancelled.cancel()
    assert await waiting is not None
    assert cancelled.cancelled()
    assert len(issuer.issued) == 1


async def test_client_without_session_tokens_gets_no_credentials(
    light_world: StreamWorld, access: FileAccess, issuer: FakeIssuer
) -> None:
    table = await light_world.table("orders")
    grant = await access.grant(light_world.root, sends_tokens=False)
    assert grant is not None
    assert (grant.credentials, grant.tables) == (None, frozenset())
    assert not await access.covers(light_world.root, table.id, sends_tokens=False)
    assert not issuer.issued


async def test_without_a_role_clients_use_their_own_storage_access(light_world: StreamWorld) -> None:
    table = await light_world.table("orders")
    access = FileAccess(light_world.clock, light_world.authorizer, light_world.tables, LOCATION)
    for sends_tokens in (True, False):
        grant = await access.grant(reader(), sends_tokens=sends_tokens)
        assert grant == FileGrant(None)
        assert not grant.is_temporary
        assert await access.covers(reader(), table.id, sends_tokens=sends_tokens)


async def test_without_an_address_no_files_are_readable(light_world: StreamWorld) -> None:
    table = await light_world.table("orders")
    access = FileAccess(light_world.clock, light_world.authorizer, light_world.tables)
    assert await access.grant(light_world.root) is None
    assert not await access.covers(light_world.root, table.id)

"""Keys to files of streams: for whom, to what, and for how long the same ones."""

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

PLACE = FileLocation("s3://lake/p", "lake", "p/streams", "us-east-1", "https://s3.example", True)
READ = "streams:Read"


class Maker:
    """Keys with numbers; what they were made for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made: list[tuple[str, str]] = []
        self.failure: LakebedError | None = None

    async def make(self, name: str, policy: str) -> Credentials:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.made.append((name, policy))
        ends_ms = self._clock.now_ms() + CREDENTIAL_SECONDS * 1000
        return Credentials(f"KEY{len(self.made)}", Secret("secret"), Secret("token"), ends_ms)


@pytest.fixture
def maker(light_world: StreamWorld) -> Maker:
    return Maker(light_world.clock)


@pytest.fixture
def access(light_world: StreamWorld, maker: Maker) -> FileAccess:
    return FileAccess(light_world.clock, light_world.authorizer, light_world.tables, PLACE, maker)


def reader(*statements: tuple[str, str], name: str = "ann") -> Caller:
    """Somebody with these effects on reading what is named below `streams/`."""
    said = [
        {"Effect": effect, "Action": READ, "Resource": f"arn:aws:lakebed:::streams{where}"}
        for effect, where in statements
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": said}).encode()
    arn = f"arn:aws:iam::{ACCOUNT}:user/{name}"
    return caller_of(Principal(name, ACCOUNT, arn, policies=(document,) if said else ()))


def opened(maker: Maker) -> list[str]:
    """What the last keys open, in the bucket."""
    (statement,) = json.loads(maker.made[-1][1])["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "s3:GetObject")
    return [each.removeprefix("arn:aws:s3:::lake/") for each in statement["Resource"]]


async def test_keys_open_the_folders_of_tables_that_may_be_read(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    orders = await light_world.table("orders")
    keyed = await light_world.table("keyed", key=["id"])
    other = await light_world.table("other")
    grant = await access.grant(reader(("Allow", "/fluss/orders"), ("Allow", "/fluss/keyed")))
    assert grant is not None
    assert grant.tables == frozenset({orders.id, keyed.id})
    assert opened(maker) == [
        f"p/streams/log/fluss/orders-{orders.id}/*",
        f"p/streams/log/fluss/keyed-{keyed.id}/*",
        f"p/streams/kv/{keyed.id}/*",
    ]
    assert maker.made[-1][0] == "user-ann"
    assert grant.covers(orders.id)
    assert not grant.covers(other.id)
    assert not grant.is_expired(light_world.clock.now_ms())
    assert grant.is_expired(grant.until_ms - 1000), "keys that are nearly over are relied on by nobody"


async def test_what_is_opened_is_where_logs_are(light_world: StreamWorld, access: FileAccess, maker: Maker) -> None:
    table = await light_world.table("orders")
    await access.grant(reader(("Allow", "/fluss/*")))
    (folder,) = opened(maker)
    for place in (
        LogLocation(TableBucket(table.id, None, 3), "fluss", "orders"),
        LogLocation(TableBucket(table.id, 8, 0), "fluss", "orders", "2026"),
    ):
        assert f"p/streams/{place.folder}/segment".startswith(folder.removesuffix("*"))


async def test_a_table_that_is_denied_is_not_opened_by_a_right_to_all(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    orders, secrets = await light_world.table("orders"), await light_world.table("secrets")
    caller = reader(("Allow", ""), ("Allow", "/*"), ("Deny", "/fluss/secrets"))
    grant = await access.grant(caller)
    assert grant is not None
    assert grant.tables == frozenset({orders.id})
    assert not await access.covers(caller, secrets.id)
    assert await access.covers(caller, orders.id)
    assert "secrets" not in maker.made[-1][1]


async def test_keys_of_root_open_tables_that_come_later(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    grant = await access.grant(light_world.root)
    assert grant is not None
    assert opened(maker) == ["p/streams/*"]
    table = await light_world.table("later")
    assert grant.covers(table.id)


@pytest.mark.parametrize("where", ["", "/fluss/nothing"])
async def test_who_reads_no_table_gets_no_keys(
    light_world: StreamWorld, access: FileAccess, maker: Maker, where: str
) -> None:
    table = await light_world.table("orders")
    grant = await access.grant(reader(("Allow", where)))
    assert grant == FileGrant(frozenset(), light_world.clock.now_ms() + CREDENTIAL_SECONDS * 1000)
    assert not grant.covers(table.id)
    assert not maker.made


async def test_who_reads_more_tables_than_a_policy_can_name_gets_no_keys(
    light_world: StreamWorld, access: FileAccess, maker: Maker
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
    assert all(len(policy) <= MAX_POLICY_CHARS for _, policy in maker.made)


async def test_the_same_keys_serve_until_half_of_their_life(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    await light_world.table("orders")
    caller = reader(("Allow", "/fluss/*"))
    first, second = await asyncio.gather(access.grant(caller), access.grant(caller))
    assert first == second
    light_world.clock.advance(CREDENTIAL_SECONDS / 2 - 1)
    assert await access.grant(caller) == first
    assert len(maker.made) == 1
    light_world.clock.advance(1)
    third = await access.grant(caller)
    assert third is not None
    assert third != first
    assert third.until_ms - light_world.clock.now_ms() == CREDENTIAL_SECONDS * 1000


async def test_keys_are_made_anew_for_others_and_for_other_rights(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    await light_world.table("orders")
    await access.grant(reader(("Allow", "/fluss/*")))
    await access.grant(reader(("Allow", "/fluss/*"), name="bob"))
    assert [name for name, _ in maker.made] == ["user-ann", "user-bob"]
    await light_world.table("more")
    await access.grant(reader(("Allow", "/fluss/*")))
    assert len(maker.made) == 3
    await access.grant(reader(("Allow", "/fluss/orders")))
    assert len(maker.made) == 3, "who has lost a right gets keys without it"
    assert "more" not in maker.made[0][1]


async def test_keys_that_cannot_be_made_are_told_of_and_tried_again(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    maker.failure = Unavailable("token service did not answer")
    with pytest.raises(FlussError, match="token service did not answer") as raised:
        await access.grant(light_world.root)
    assert raised.value.code is ErrorCode.SECURITY_TOKEN
    maker.failure = None
    grant = await access.grant(light_world.root)
    assert grant is not None
    assert grant.credentials is not None


async def test_who_leaves_takes_keys_from_nobody(light_world: StreamWorld, access: FileAccess, maker: Maker) -> None:
    leaving = asyncio.create_task(access.grant(light_world.root))
    staying = asyncio.create_task(access.grant(light_world.root))
    while not access._pending:
        await asyncio.sleep(0)
    leaving.cancel()
    assert await staying is not None
    assert leaving.cancelled()
    assert len(maker.made) == 1


async def test_who_does_not_send_session_tokens_gets_no_keys(
    light_world: StreamWorld, access: FileAccess, maker: Maker
) -> None:
    table = await light_world.table("orders")
    grant = await access.grant(light_world.root, sends_tokens=False)
    assert grant is not None
    assert (grant.credentials, grant.tables) == (None, frozenset())
    assert not await access.covers(light_world.root, table.id, sends_tokens=False)
    assert not maker.made


async def test_without_a_role_clients_have_access_of_their_own(light_world: StreamWorld) -> None:
    table = await light_world.table("orders")
    access = FileAccess(light_world.clock, light_world.authorizer, light_world.tables, PLACE)
    for sends_tokens in (True, False):
        grant = await access.grant(reader(), sends_tokens=sends_tokens)
        assert grant == FileGrant(None)
        assert not grant.is_temporary
        assert await access.covers(reader(), table.id, sends_tokens=sends_tokens)


async def test_without_an_address_nobody_reads_files(light_world: StreamWorld) -> None:
    table = await light_world.table("orders")
    access = FileAccess(light_world.clock, light_world.authorizer, light_world.tables)
    assert await access.grant(light_world.root) is None
    assert not await access.covers(light_world.root, table.id)

"""The GCS store on fake-gcs-server fulfils the contract."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lakebed.core.errors import AlreadyExists, NoSuchBucket, PreconditionFailed
from lakebed.core.secrets import Secret
from lakebed.storage.cloud import CloudStorage
from lakebed.storage.gcs import GcsOptions, connect_gcs
from lakebed.storage.gcs.sdk import PIECE_BYTES
from lakebed.storage.probe import Capabilities as Conditions
from lakebed.storage.probe import probe_conditions
from lakebed.storage.seam import Key
from tests.contracts.storage import Capabilities, StorageContract
from tests.fixtures.fake_gcs import FakeGcsServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def options(fake_gcs: FakeGcsServer) -> GcsOptions:
    """A new bucket on the server."""
    return GcsOptions(
        fake_gcs.make_bucket(), endpoint=fake_gcs.endpoint, allow_http=True, token=Secret("accepted-by-the-emulator")
    )


@pytest.fixture
def prefixed(options: GcsOptions) -> GcsOptions:
    """The same under a unique prefix."""
    return replace(options, prefix=f"tests/{secrets.token_hex(6)}")


@pytest.fixture
async def storage(prefixed: GcsOptions) -> AsyncIterator[CloudStorage]:
    opened = await connect_gcs(prefixed)
    yield opened
    await opened.close()


class TestGcsOnFakeGcsServer(StorageContract):
    # The library has multipart uploads of local files only.
    capabilities = Capabilities(multipart=False, conditional_complete=False, list_uploads=False)

    @pytest.fixture
    async def storage(self, options: GcsOptions) -> AsyncIterator[CloudStorage]:
        opened = await connect_gcs(options)
        yield opened
        await opened.close()


async def test_probe_finds_the_conditions_of_whole_objects(storage: CloudStorage) -> None:
    assert await probe_conditions(storage, Key("probe")) == Conditions(True, False)
    assert [head async for head in storage.list_prefix()] == []


async def test_prefixes_separate_stores_in_one_bucket(options: GcsOptions) -> None:
    root = f"apart-{secrets.token_hex(6)}"
    one, other, both = [
        await connect_gcs(replace(options, prefix=prefix)) for prefix in (f"{root}/a", f"/{root}/ab/", root)
    ]
    await one.put(Key("k"), b"one")
    await other.put(Key("k"), b"other")
    assert [head.key async for head in one.list_prefix()] == ["k"]
    assert [head.key async for head in both.list_prefix()] == ["a/k", "ab/k"]
    assert await both.get(Key("ab/k")) == b"other"
    await one.delete_many([Key("k")])
    assert [head.key async for head in both.list_prefix("", "a/k")] == ["ab/k"]
    for opened in (one, other, both):
        await opened.close()


@pytest.mark.slow
async def test_object_of_several_pieces_is_read_whole(storage: CloudStorage) -> None:
    body = secrets.token_bytes(2 * PIECE_BYTES)
    await storage.put(Key("k"), body)
    pieces = [piece async for piece in storage.stream(Key("k"))]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert (
        b"".join([piece async for piece in storage.stream(Key("k"), 3, PIECE_BYTES + 3)]) == body[3 : PIECE_BYTES + 3]
    )
    assert await storage.get(Key("k")) == body


@pytest.mark.slow
async def test_conditions_hold_for_bodies_that_the_library_sends_in_two_requests(storage: CloudStorage) -> None:
    body = b"x" * (8 * 1024 * 1024 + 1)
    created = await storage.put_if_absent(Key("k"), body, metadata={"name": "value"})
    with pytest.raises(AlreadyExists):
        await storage.put_if_absent(Key("k"), body)
    swapped = await storage.put_if_match(Key("k"), body + b"y", created.etag)
    with pytest.raises(PreconditionFailed):
        await storage.put_if_match(Key("k"), body, created.etag)
    head = await storage.head(Key("k"))
    assert (head.etag, head.size, head.metadata) == (swapped.etag, len(body) + 1, {})
    other = Key("raced")
    outcomes = await asyncio.gather(*(storage.put_if_absent(other, body) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 3


async def test_missing_bucket_is_not_a_missing_object(prefixed: GcsOptions) -> None:
    storage = await connect_gcs(replace(prefixed, bucket="no-such-bucket"))
    with pytest.raises(NoSuchBucket):
        await storage.put(Key("k"), b"")
    with pytest.raises(NoSuchBucket):
        _ = [head async for head in storage.list_prefix()]
    await storage.close()

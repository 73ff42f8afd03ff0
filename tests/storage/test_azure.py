"""The Azure store on Azurite fulfils the contract."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import pytest
from azure.storage.blob import BlobClient

from lakebed.core.errors import AccessDenied, InvalidName, NoSuchBucket, StateConflict, Unauthenticated, WriteConflict
from lakebed.core.secrets import Secret
from lakebed.storage.azure import AzureOptions, AzureStorage, connect_azure
from lakebed.storage.azure.sdk import PIECE_BYTES
from lakebed.storage.probe import Capabilities as Conditions
from lakebed.storage.probe import probe_conditions
from lakebed.storage.seam import Key
from tests.contracts.storage import ODD_KEYS, Capabilities, StorageContract
from tests.fixtures.azurite import AzuriteServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def options(azurite: AzuriteServer) -> AzureOptions:
    """A new container on the server."""
    return AzureOptions(
        azurite.account,
        azurite.make_container(),
        endpoint=azurite.endpoint,
        allow_http=True,
        account_key=Secret(azurite.account_key),
    )


@pytest.fixture
def prefixed(options: AzureOptions) -> AzureOptions:
    """The same under a unique prefix."""
    return replace(options, prefix=f"tests/{secrets.token_hex(6)}")


@pytest.fixture
async def storage(prefixed: AzureOptions) -> AsyncIterator[AzureStorage]:
    opened = await connect_azure(prefixed)
    yield opened
    await opened.close()


class TestAzureOnAzurite(StorageContract):
    # Azure may drop dots at the end of a segment, so such keys are rejected. It lists no block uploads.
    capabilities = Capabilities(odd_keys=tuple(key for key in ODD_KEYS if key != "dots-last.."), list_uploads=False)

    @pytest.fixture
    async def storage(self, options: AzureOptions) -> AsyncIterator[AzureStorage]:
        opened = await connect_azure(options)
        yield opened
        await opened.close()


async def test_probe_finds_all_conditions(storage: AzureStorage) -> None:
    found = await probe_conditions(storage, Key("probe"))
    assert found == Conditions(conditional_put=True, conditional_complete=True)
    assert [head async for head in storage.list_prefix()] == []


async def test_prefixes_separate_stores_in_one_container(options: AzureOptions) -> None:
    root = f"apart-{secrets.token_hex(6)}"
    one, other, both = [
        await connect_azure(replace(options, prefix=prefix)) for prefix in (f"{root}/a", f"/{root}/ab/", root)
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


async def test_name_that_azure_may_alter_is_rejected(storage: AzureStorage) -> None:
    with pytest.raises(InvalidName):
        await storage.put(Key("dots-last.."), b"")
    with pytest.raises(InvalidName):
        await storage.get(Key("back\\slash"))


async def test_completion_of_another_upload_is_a_conflict(storage: AzureStorage) -> None:
    # Azure discards uncommitted blocks at every write of the blob; Azurite only at a Put Block List.
    upload, other = await storage.start_multipart(Key("k")), await storage.start_multipart(Key("k"))
    part = await upload.upload_part(1, b"discarded")
    await other.complete([await other.upload_part(1, b"meanwhile")])
    with pytest.raises(WriteConflict):
        await upload.complete([part])
    assert await storage.get(Key("k")) == b"meanwhile"


async def test_completion_can_be_repeated(storage: AzureStorage) -> None:
    upload = await storage.start_multipart(Key("k"))
    parts = [await upload.upload_part(1, b"part")]
    await upload.complete(parts)
    await upload.complete(parts)
    assert await storage.get(Key("k")) == b"part"


async def test_empty_part_is_accepted(storage: AzureStorage) -> None:
    upload = await storage.start_multipart(Key("k"))
    await upload.complete([await upload.upload_part(1, b"")])
    assert await storage.get(Key("k")) == b""


@pytest.mark.slow
async def test_object_of_several_pieces_is_read_whole(storage: AzureStorage) -> None:
    body = secrets.token_bytes(2 * PIECE_BYTES + 5)
    await storage.put(Key("k"), body)
    pieces = [piece async for piece in storage.stream(Key("k"), 3)]
    assert b"".join(pieces) == body[3:]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert await storage.get(Key("k")) == body
    assert await storage.get_range(Key("k"), 5, PIECE_BYTES + 9) == body[5 : PIECE_BYTES + 9]


async def test_object_with_snapshots_is_not_deleted(storage: AzureStorage, prefixed: AzureOptions) -> None:
    await storage.put(Key("k"), b"kept")
    assert prefixed.account_key is not None
    credential = {"account_name": prefixed.account, "account_key": prefixed.account_key.reveal()}
    name = f"{prefixed.key_prefix}k"
    with closing(BlobClient(prefixed.account_url, prefixed.container, name, credential=credential)) as blob:
        await asyncio.to_thread(blob.create_snapshot)
    with pytest.raises(StateConflict):
        await storage.delete(Key("k"))
    assert await storage.get(Key("k")) == b"kept"


async def test_wrong_key_is_reported_and_not_quoted(prefixed: AzureOptions) -> None:
    wrong = base64.b64encode(b"not-the-key" * 5).decode()
    storage = await connect_azure(replace(prefixed, account_key=Secret(wrong)))
    # Azure answers AuthenticationFailed, Azurite AuthorizationFailure.
    with pytest.raises((Unauthenticated, AccessDenied)) as refused:
        await storage.put(Key("k"), b"")
    await storage.close()
    assert wrong not in str(refused.value)


async def test_missing_container_is_not_a_missing_object(prefixed: AzureOptions) -> None:
    storage = await connect_azure(replace(prefixed, container="no-such-container"))
    with pytest.raises(NoSuchBucket):
        await storage.get(Key("k"))
    with pytest.raises(NoSuchBucket):
        await storage.put_if_match(Key("k"), b"", "0x1")
    with pytest.raises(NoSuchBucket):
        await storage.delete(Key("k"))
    with pytest.raises(NoSuchBucket):
        _ = [head async for head in storage.list_prefix()]
    await storage.close()

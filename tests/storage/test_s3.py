"""The S3 store on real servers fulfils the contract."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import get_args

import pytest

from lakebed.core.errors import NoSuchBucket, NotSupported, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import Checksum, S3Options, S3Storage, connect_s3
from lakebed.storage.seam import MIN_PART_BYTES, Key
from tests.contracts.storage import Capabilities, StorageContract
from tests.fixtures.minio import MinioServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def options(minio: MinioServer) -> S3Options:
    """A new bucket on the server."""
    return S3Options(
        bucket=minio.make_bucket(),
        endpoint=minio.endpoint,
        allow_http=True,
        access_key_id=minio.access_key_id,
        secret_access_key=Secret(minio.secret_access_key),
    )


@pytest.fixture
def prefixed(options: S3Options) -> S3Options:
    """The same under a unique prefix."""
    return replace(options, prefix=f"tests/{secrets.token_hex(6)}")


@pytest.fixture
async def storage(prefixed: S3Options) -> AsyncIterator[S3Storage]:
    opened = await connect_s3(prefixed, capabilities=CONDITIONS_TRUSTED)
    yield opened
    await opened.close()


class TestS3OnMinio(StorageContract):
    # MinIO stores an object in a folder of its name, does not list objects below another, and lists uploads only by
    # whole keys.
    capabilities = Capabilities(long_segments=False, nested_keys=False, list_uploads=False)

    @pytest.fixture
    async def storage(self, options: S3Options) -> AsyncIterator[S3Storage]:
        opened = await connect_s3(options, capabilities=CONDITIONS_TRUSTED)
        yield opened
        await opened.close()


async def test_prefixes_separate_stores_in_one_bucket(options: S3Options) -> None:
    root = f"apart-{secrets.token_hex(6)}"
    one, other, both = [
        await connect_s3(replace(options, prefix=prefix), capabilities=CONDITIONS_TRUSTED)
        for prefix in (f"{root}/a", f"/{root}/ab/", root)
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


async def test_keys_that_are_not_valid_xml_are_listed_and_deleted(storage: S3Storage) -> None:
    keys = [Key("bell\x07"), Key("line\r\nbreak"), Key("not\ufffe"), Key("plain")]
    for key in keys:
        await storage.put(key, b"x")
    assert {head.key async for head in storage.list_prefix()} == set(keys)
    await storage.delete_many(keys)
    assert [head async for head in storage.list_prefix()] == []


async def test_folder_markers_of_other_tools_are_not_listed(
    storage: S3Storage, prefixed: S3Options, minio: MinioServer
) -> None:
    await storage.put(Key("folder/object"), b"x")
    with minio.client() as client:
        client.put_object(Bucket=prefixed.bucket, Key=f"{prefixed.key_prefix}folder/")
    assert [head.key async for head in storage.list_prefix()] == ["folder/object"]


@pytest.mark.parametrize("checksum", get_args(Checksum))
async def test_all_checksum_algorithms_are_accepted(prefixed: S3Options, checksum: Checksum) -> None:
    storage = await connect_s3(replace(prefixed, checksum=checksum))
    key = Key("k")
    await storage.put(key, b"whole")
    assert await storage.get(key) == b"whole"
    upload = await storage.start_multipart(key)
    first, second = await upload.upload_part(1, b"a" * MIN_PART_BYTES), await upload.upload_part(2, b"b")
    await upload.complete([first, second])
    assert await storage.get(key) == b"a" * MIN_PART_BYTES + b"b"
    await storage.delete_many([key])
    await storage.close()


async def test_body_may_be_left_out_of_the_signature(prefixed: S3Options) -> None:
    storage = await connect_s3(replace(prefixed, unsigned_payload=True))
    await storage.put(Key("k"), b"body")
    assert await storage.get(Key("k")) == b"body"
    await storage.close()


async def test_stream_reads_a_piece_at_a_time(storage: S3Storage) -> None:
    body = secrets.token_bytes(3 * 1024 * 1024 + 5)
    await storage.put(Key("k"), body)
    pieces = [piece async for piece in storage.stream(Key("k"))]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= 1024 * 1024


async def test_uploads_are_listed_by_key(storage: S3Storage) -> None:
    upload = await storage.start_multipart(Key("some/key +%"))
    (found,) = [upload async for upload in storage.list_uploads("some/key +%")]
    assert (found.key, found.upload_id) == ("some/key +%", upload.upload_id)
    assert found.started_ms > 0
    await storage.abort_upload(found.key, found.upload_id)
    assert [upload async for upload in storage.list_uploads("some/key +%")] == []


async def test_disabled_conditional_writes_are_rejected(prefixed: S3Options) -> None:
    storage = await connect_s3(replace(prefixed, conditional_writes=False))
    with pytest.raises(NotSupported):
        await storage.put_if_absent(Key("k"), b"")
    await storage.put(Key("k"), b"plain")
    await storage.close()


async def test_wrong_secret_is_raised_at_once(prefixed: S3Options) -> None:
    wrong = replace(prefixed, secret_access_key=Secret("not-the-secret"))
    with pytest.raises(Unauthenticated) as refused:
        await connect_s3(wrong)
    assert "not-the-secret" not in str(refused.value)


async def test_missing_bucket_is_not_a_missing_object(prefixed: S3Options) -> None:
    storage = await connect_s3(replace(prefixed, bucket="no-such-bucket"), capabilities=CONDITIONS_TRUSTED)
    with pytest.raises(NoSuchBucket):
        await storage.get(Key("k"))
    with pytest.raises(NoSuchBucket):
        await storage.put_if_match(Key("k"), b"", "tag")
    with pytest.raises(NoSuchBucket):
        await storage.delete(Key("k"))
    await storage.close()

"""The probe for conditional writes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, NotSupported, PreconditionFailed, Unavailable, WriteConflict
from lakebed.core.secrets import Secret
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.probe import Capabilities, ETagStyle, probe_conditions
from lakebed.storage.s3 import S3Options, connect_s3
from lakebed.storage.seam import (
    ByteSource,
    Key,
    Metadata,
    MultipartUpload,
    ObjectVersion,
    PartReceipt,
    WriteCondition,
)
from tests.fixtures.minio import MinioServer

SCRATCH = Key("probe/scratch")


class Store(MemoryStorage):
    """A memory store whose subclasses break conditions."""

    def __init__(self) -> None:
        super().__init__(ManualClock())

    async def is_empty(self) -> bool:
        """Whether no objects and uploads remain."""
        objects = [head async for head in self.list_prefix()]
        uploads = [upload async for upload in self.list_uploads()]
        return not objects and not uploads


class IgnoresIfNoneMatch(Store):
    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        return await self.put(key, body, metadata=metadata)


class IgnoresIfMatch(Store):
    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        return await self.put(key, body, metadata=metadata)


class NeverMatches(Store):
    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        raise PreconditionFailed("always")


class OneETagForAll(Store):
    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        await super().put_if_absent(key, body, metadata=metadata)
        return ObjectVersion("same")

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        await self.put(key, body, metadata=metadata)
        return ObjectVersion("same")


class UndecidedAtFirst(Store):
    def __init__(self, conflicts: int) -> None:
        super().__init__()
        self.conflicts = conflicts

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if self.conflicts:
            self.conflicts -= 1
            raise WriteConflict("undecided")
        return await super().put_if_absent(key, body, metadata=metadata)


class CompletesRegardless(Store):
    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:  # type: ignore[override]  # the wider type is what callers see
        return _Regardless(await super().start_multipart(key, metadata=metadata))


class _Regardless:
    def __init__(self, inner: MultipartUpload) -> None:
        self.inner = inner
        self.key = inner.key
        self.upload_id = inner.upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        return await self.inner.upload_part(number, body)

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        return await self.inner.complete(parts)

    async def abort(self) -> None:
        await self.inner.abort()


class WantsBareETags(Store):
    """A store that matches ETags only without quotes."""

    style = ETagStyle.QUOTED

    def adopt(self, capabilities: Capabilities) -> None:
        self.adopted = capabilities
        self.style = capabilities.etag_style

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        sent = f'"{etag}"' if self.style is ETagStyle.QUOTED else etag
        return await super().put_if_match(key, body, sent, metadata=metadata)


async def test_correct_store_passes_and_is_left_clean() -> None:
    store = Store()
    assert await probe_conditions(store, SCRATCH) == Capabilities(conditional_put=True, conditional_complete=True)
    assert await store.is_empty()


@pytest.mark.parametrize(
    ("store_type", "message"),
    [
        (IgnoresIfNoneMatch, "If-None-Match is ignored"),
        (IgnoresIfMatch, "If-Match is ignored"),
        (NeverMatches, "although the ETag is right"),
        (OneETagForAll, "does not change"),
    ],
)
async def test_store_that_ignores_conditions_is_rejected_with_advice_and_left_clean(
    store_type: type[Store], message: str
) -> None:
    store = store_type()
    with pytest.raises(NotSupported, match=message) as refused:
        await probe_conditions(store, SCRATCH)
    assert "conditional writes" in str(refused.value)
    assert await store.is_empty()


async def test_store_that_ignores_conditions_on_completion_is_reported() -> None:
    store = CompletesRegardless()
    assert await probe_conditions(store, SCRATCH) == Capabilities(conditional_put=True, conditional_complete=False)
    assert await store.is_empty()


async def test_working_etag_style_is_adopted() -> None:
    store = WantsBareETags()
    found = await probe_conditions(store, SCRATCH)
    assert found.etag_style is ETagStyle.BARE
    assert store.adopted == found


async def test_undecided_writes_are_retried_a_limited_number_of_times() -> None:
    assert (await probe_conditions(UndecidedAtFirst(2), SCRATCH)).conditional_put
    with pytest.raises(WriteConflict):
        await probe_conditions(UndecidedAtFirst(1000), SCRATCH)


@pytest.mark.parametrize("error", [AccessDenied("no"), Unavailable("away")])
async def test_probe_raises_if_the_store_is_unavailable(error: Exception) -> None:
    class Broken(Store):
        async def put_if_match(
            self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
        ) -> ObjectVersion:
            raise error

    store = Broken()
    with pytest.raises(type(error)):
        await probe_conditions(store, SCRATCH)
    assert await store.is_empty()


@pytest.mark.parametrize("error", [AccessDenied("no"), Unavailable("refused to connect")])
async def test_scratch_object_is_not_deleted_if_it_was_not_written(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    class Unreachable(Store):
        async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
            raise error

        async def delete(self, key: Key) -> None:
            raise error

    with pytest.raises(type(error)):
        await probe_conditions(Unreachable(), SCRATCH)
    assert caplog.text == ""


async def test_scratch_object_is_deleted_if_it_may_have_been_written() -> None:
    class ResponseLost(Store):
        async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
            await super().put_if_absent(key, body, metadata=metadata)
            raise Unavailable("answer lost", undecided=True)

    store = ResponseLost()
    with pytest.raises(Unavailable):
        await probe_conditions(store, SCRATCH)
    assert await store.is_empty()


async def test_result_is_returned_even_if_the_scratch_object_cannot_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Undeletable(Store):
        async def delete(self, key: Key) -> None:
            raise AccessDenied("no deletes")

    assert (await probe_conditions(Undeletable(), SCRATCH)).conditional_put
    assert "could not be removed" in caplog.text


@pytest.mark.integration
async def test_minio_supports_every_condition_and_is_left_clean(minio: MinioServer) -> None:
    options = S3Options(
        bucket=minio.make_bucket(),
        endpoint=minio.endpoint,
        allow_http=True,
        access_key_id=minio.access_key_id,
        secret_access_key=Secret(minio.secret_access_key),
    )
    storage = await connect_s3(replace(options, prefix=secrets.token_hex(4)))
    assert storage.capabilities == Capabilities(conditional_put=True, conditional_complete=True)
    await storage.close()
    everything = await connect_s3(options, capabilities=storage.capabilities)
    assert [head async for head in everything.list_prefix()] == []
    await everything.close()

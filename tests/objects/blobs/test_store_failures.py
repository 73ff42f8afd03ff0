"""Errors for clients when the object store rejects the server's own requests."""

from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    CredentialsExpired,
    InvalidSetting,
    LakebedError,
    NoSuchBucket,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.ids import new_blob_id
from lakebed.objects.blobs.contents import ByteRange, Contents, ContentSource
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.blobs.ingest import Ingester
from lakebed.objects.model import Content, Extent, pack
from lakebed.storage.memory import MemoryStorage
from tests.fixtures.faulty_storage import FailBefore, FaultScript, FaultyStorage
from tests.objects.stores import INLINE_MAX_BYTES, Body, new_key_ring, replaced

CLOCK = ManualClock()
LIMIT = 1000
BIG = b"0123456789" * 10

REJECTIONS: list[type[LakebedError]] = [Unauthenticated, CredentialsExpired, AccessDenied, InvalidSetting]


@pytest.mark.parametrize("rejection", REJECTIONS)
async def test_rejected_read_is_unavailable_for_the_client(rejection: type[LakebedError]) -> None:
    store = FaultyStorage(MemoryStorage(CLOCK), FaultScript().always("stream", FailBefore(rejection("keys revoked"))))
    content = Content(None, None, pack([Extent(6, blob=new_blob_id(CLOCK))]))
    with pytest.raises(Unavailable, match="keys revoked"):
        await ContentSource(Contents(store, new_key_ring(), replaced), 6, content).open_stream(ByteRange(0, 6))


@pytest.mark.parametrize("rejection", [*REJECTIONS, NoSuchBucket, NotFound])
async def test_rejected_write_is_unavailable_for_the_client(rejection: type[LakebedError]) -> None:
    script = FaultScript()
    for operation in ("put", "put_if_absent", "start_multipart"):
        script.always(operation, FailBefore(rejection("keys revoked")))
    ingester = Ingester(
        FaultyStorage(MemoryStorage(CLOCK), script), new_key_ring(), CLOCK, inline_max_bytes=INLINE_MAX_BYTES
    )
    with pytest.raises(Unavailable, match="keys revoked"):
        await ingester.ingest(Body(BIG), ExpectedDigests(), encrypt=False, limit=LIMIT)
    ingester.close()


async def test_error_of_the_sender_is_unchanged() -> None:
    class Rejected(Body):
        async def next_chunk(self) -> bytes:
            raise AccessDenied("the signature of a chunk does not match")

    ingester = Ingester(MemoryStorage(CLOCK), new_key_ring(), CLOCK, inline_max_bytes=INLINE_MAX_BYTES)
    with pytest.raises(AccessDenied):
        await ingester.ingest(Rejected(BIG), ExpectedDigests(), encrypt=False, limit=LIMIT)
    ingester.close()

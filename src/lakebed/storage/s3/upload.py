"""A multipart upload to an S3 store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...core.errors import InvalidInput, InvalidPartOrder, NoSuchUpload
from ..multipart import check_part_number
from ..seam import ByteSource, Key, ObjectVersion, PartReceipt, WriteCondition
from .encoding import S3Encoding, quote_etag
from .error_mapping import StoreOperation
from .executor import S3Executor
from .request import Reply, S3ClientRequest
from .responses import bare_etag, version_made


class S3Upload:
    """A begun upload. See `MultipartUpload`."""

    def __init__(self, calls: S3Executor, wire: S3Encoding, key: Key, upload_id: str) -> None:
        self._calls = calls
        self._wire = wire
        self._key = key
        self._upload_id = upload_id
        self._checksums: dict[int, str] = {}
        """What the store said of each part, which it wants to hear again at completion."""

    @property
    def key(self) -> Key:
        """Where the object will be."""
        return self._key

    @property
    def upload_id(self) -> str:
        """The store's name for this upload."""
        return self._upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Send a part. See `MultipartUpload.upload_part`."""
        check_part_number(number)
        sent = bytes(body)
        reply = await self._calls.call(
            self._request(
                StoreOperation.UPLOAD_PART, {"PartNumber": number, "Body": sent, **self._wire.checksum_arguments()}
            )
        )
        checksum = reply.get(self._wire.checksum_field) if self._wire.checksum_field else None
        if checksum:
            self._checksums[number] = checksum
        return PartReceipt(number, bare_etag(reply, StoreOperation.UPLOAD_PART), len(sent))

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object. See `MultipartUpload.complete`."""
        if not parts:
            raise InvalidInput(f"an object needs a part. key={self._key!r}", argument="parts")
        numbers = [part.number for part in parts]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise InvalidPartOrder(f"parts must ascend. key={self._key!r}")
        arguments: dict[str, object] = {"MultipartUpload": {"Parts": [self._named(part) for part in parts]}}
        arguments |= self._wire.complete_arguments(condition)
        reply: Reply = await self._calls.call(self._request(StoreOperation.COMPLETE, arguments, condition))
        return version_made(reply, StoreOperation.COMPLETE)

    async def abort(self) -> None:
        """Forget the upload. Idempotent."""
        await abort_upload(self._calls, self._wire, self._key, self._upload_id)

    def _named(self, part: PartReceipt) -> dict[str, object]:
        named: dict[str, object] = {"PartNumber": part.number, "ETag": quote_etag(part.etag)}
        if part.number in self._checksums:
            named[self._wire.checksum_field] = self._checksums[part.number]
        return named

    def _request(
        self, operation: StoreOperation, arguments: dict[str, object], condition: WriteCondition | None = None
    ) -> S3ClientRequest:
        return S3ClientRequest(
            operation, self._wire.full_key(self._key), {"UploadId": self._upload_id, **arguments}, condition
        )


async def abort_upload(calls: S3Executor, wire: S3Encoding, key: Key, upload_id: str) -> None:
    """Abort an upload; one that is gone is aborted."""
    try:
        await calls.call(S3ClientRequest(StoreOperation.ABORT, wire.full_key(key), {"UploadId": upload_id}))
    except NoSuchUpload:
        return

"""Multipart uploads to an S3 store."""

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
from .responses import bare_etag, written_version


class S3Upload:
    """A multipart upload. See `MultipartUpload`."""

    def __init__(self, calls: S3Executor, encoding: S3Encoding, key: Key, upload_id: str) -> None:
        self._calls = calls
        self._encoding = encoding
        self.key = key
        self.upload_id = upload_id
        self._checksums: dict[int, str] = {}
        """The checksums that the store returned for parts, which completion has to repeat."""

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Upload a part. See `MultipartUpload.upload_part`."""
        check_part_number(number)
        sent = bytes(body)
        reply = await self._calls.call(
            self._request(
                StoreOperation.UPLOAD_PART, {"PartNumber": number, "Body": sent, **self._encoding.checksum_arguments()}
            )
        )
        checksum = reply.get(self._encoding.checksum_field) if self._encoding.checksum_field else None
        if checksum:
            self._checksums[number] = checksum
        return PartReceipt(number, bare_etag(reply, StoreOperation.UPLOAD_PART), len(sent))

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object. See `MultipartUpload.complete`."""
        if not parts:
            raise InvalidInput(f"no parts to complete. key={self.key!r}", argument="parts")
        numbers = [part.number for part in parts]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise InvalidPartOrder(f"parts are not ascending. key={self.key!r}")
        arguments: dict[str, object] = {"MultipartUpload": {"Parts": [self._listed(part) for part in parts]}}
        arguments |= self._encoding.complete_arguments(condition)
        reply: Reply = await self._calls.call(self._request(StoreOperation.COMPLETE, arguments, condition))
        return written_version(reply, StoreOperation.COMPLETE)

    async def abort(self) -> None:
        """Delete the upload. Idempotent."""
        await abort_upload(self._calls, self._encoding, self.key, self.upload_id)

    def _listed(self, part: PartReceipt) -> dict[str, object]:
        listed: dict[str, object] = {"PartNumber": part.number, "ETag": quote_etag(part.etag)}
        if part.number in self._checksums:
            listed[self._encoding.checksum_field] = self._checksums[part.number]
        return listed

    def _request(
        self, operation: StoreOperation, arguments: dict[str, object], condition: WriteCondition | None = None
    ) -> S3ClientRequest:
        return S3ClientRequest(
            operation, self._encoding.full_key(self.key), {"UploadId": self.upload_id, **arguments}, condition
        )


async def abort_upload(calls: S3Executor, encoding: S3Encoding, key: Key, upload_id: str) -> None:
    """Abort an upload; an absent one is ignored."""
    try:
        await calls.call(S3ClientRequest(StoreOperation.ABORT, encoding.full_key(key), {"UploadId": upload_id}))
    except NoSuchUpload:
        return

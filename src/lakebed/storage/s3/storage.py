"""An ObjectStorage in one bucket of any S3-compatible store.

Requests are sent once. The retry wrapper retries, because it can recognize its own writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from ...core.errors import InvalidRange, NoSuchBucket, NotFound, NotSupported
from ..error_response import ErrorResponse
from ..keys import check_metadata, encode_text
from ..probe import Capabilities
from ..seam import (
    ByteSource,
    IfAbsent,
    IfMatch,
    Key,
    Metadata,
    ObjectHead,
    ObjectVersion,
    OpenUpload,
    WriteCondition,
)
from .encoding import S3Encoding, is_xml_text, unquote_etag
from .error_mapping import StoreOperation, failure
from .executor import S3Executor
from .request import Reply, S3Body, S3ClientRequest
from .responses import epoch_ms, object_head, written_version
from .upload import S3Upload, abort_upload

PAGE_KEYS: Final = 1000
"""S3's limit for keys in a listing or a bulk delete."""

PIECE_BYTES: Final = 1024 * 1024
"""Bytes read at a time from a stream, enough to be worth a thread call."""


class S3Storage:
    """Objects in a bucket, under a prefix. Used from one event loop."""

    def __init__(self, calls: S3Executor, encoding: S3Encoding, *, bulk_delete: bool = True) -> None:
        self._calls = calls
        self._encoding = encoding
        self._bulk_delete = bulk_delete

    @property
    def capabilities(self) -> Capabilities:
        """The conditional writes that the store is assumed to support."""
        return self._encoding.capabilities

    def adopt(self, capabilities: Capabilities) -> None:
        """Use the result of the probe. See `AdoptsCapabilities`."""
        self._encoding = replace(self._encoding, capabilities=capabilities)

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object, replacing an existing one."""
        return await self._put(key, body, metadata, None)

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists; WriteConflict if undecided."""
        return await self._put(key, body, metadata, IfAbsent())

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed; WriteConflict if undecided."""
        return await self._put(key, body, metadata, IfMatch(etag))

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> S3Upload:
        """Create a multipart upload."""
        arguments = {"Metadata": dict(check_metadata(metadata)), **self._encoding.checksum_arguments()}
        reply = await self._calls.call(
            S3ClientRequest(StoreOperation.CREATE_UPLOAD, self._encoding.full_key(key), arguments)
        )
        return S3Upload(self._calls, self._encoding, key, reply["UploadId"])

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads by key. One request per 1,000."""
        encode_text(prefix)
        arguments: dict[str, object] = {"Prefix": self._encoding.key_prefix + prefix, "EncodingType": "url"}
        while True:
            reply = await self._calls.call(S3ClientRequest(StoreOperation.LIST_UPLOADS, arguments=arguments))
            decode = unquote_plus if reply.get("EncodingType") == "url" else str
            for upload in reply.get("Uploads", ()):
                key = self._encoding.own_key(decode(upload["Key"]))
                if key is not None:
                    yield OpenUpload(key, upload["UploadId"], epoch_ms(upload["Initiated"]))
            if not reply.get("IsTruncated"):
                return
            arguments["KeyMarker"] = decode(reply["NextKeyMarker"])
            arguments["UploadIdMarker"] = reply["NextUploadIdMarker"]

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        await abort_upload(self._calls, self._encoding, key, upload_id)

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        return await self._calls.call_then(S3ClientRequest(StoreOperation.GET, self._encoding.full_key(key)), _read_all)

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive. Raises NotFound, InvalidRange."""
        request = self._range_request(key, start, end)
        found = await self._calls.call_then(request, _read_range)
        if not found:  # some stores return nothing instead of an error for the range of an empty object
            raise InvalidRange(f"range not satisfiable. start={start} end={end} size=0", size=0)
        return found

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """A range in pieces. Raises Unavailable if the store stops early."""
        if start == 0 and end is None:
            request = S3ClientRequest(StoreOperation.GET, self._encoding.full_key(key))
        else:
            request = self._range_request(key, start, end)
        try:
            reply = await self._calls.call(request)
        except InvalidRange:
            if start == 0:  # only an empty object has no first byte
                return
            raise
        body: S3Body = reply["Body"]
        try:
            if "Range" in request.arguments:
                _check_partial(reply)
            while piece := await self._calls.run(lambda: body.read(PIECE_BYTES)):
                yield piece
        finally:
            self._calls.close_later(body)

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        reply = await self._calls.call(S3ClientRequest(StoreOperation.HEAD, self._encoding.full_key(key)))
        return object_head(key, reply)

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`. Names that are not a valid `Key` are skipped."""
        encode_text(prefix)
        encode_text(start_after)
        arguments: dict[str, object] = {"Prefix": self._encoding.key_prefix + prefix, "MaxKeys": PAGE_KEYS}
        if start_after:
            arguments["StartAfter"] = self._encoding.key_prefix + start_after
        while True:
            reply = await self._calls.call(S3ClientRequest(StoreOperation.LIST, arguments=arguments))
            for found in reply.get("Contents", ()):
                key = self._encoding.own_key(found["Key"])
                if key is not None:
                    modified_ms = epoch_ms(found["LastModified"])
                    yield ObjectHead(key, found["Size"], unquote_etag(found["ETag"]), modified_ms)
            if not reply.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = reply["NextContinuationToken"]

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        await self._delete(self._encoding.full_key(key))

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects. If the store has no bulk delete, one by one, also in later calls."""
        full_keys = [self._encoding.full_key(key) for key in keys]
        for first in range(0, len(full_keys), PAGE_KEYS):
            await self._delete_batch(full_keys[first : first + PAGE_KEYS])

    async def close(self) -> None:
        """Wait for running requests, then close connections and threads."""
        await self._calls.close()

    async def _put(
        self, key: Key, body: ByteSource, metadata: Metadata | None, condition: WriteCondition | None
    ) -> ObjectVersion:
        # A copy, in case the caller's buffer changes while a thread sends it; bytes are not copied.
        arguments: dict[str, object] = {"Body": bytes(body), "Metadata": dict(check_metadata(metadata))}
        arguments |= self._encoding.put_arguments(condition)
        reply = await self._calls.call(
            S3ClientRequest(StoreOperation.PUT, self._encoding.full_key(key), arguments, condition)
        )
        return written_version(reply, StoreOperation.PUT)

    def _range_request(self, key: Key, start: int, end: int | None) -> S3ClientRequest:
        full_key = self._encoding.full_key(key)
        if start < 0 or (end is not None and end <= start):
            raise InvalidRange(f"range not satisfiable. start={start} end={end}", requested=f"{start}-{end}")
        last = "" if end is None else end - 1
        return S3ClientRequest(StoreOperation.GET, full_key, {"Range": f"bytes={start}-{last}"})

    async def _delete_batch(self, full_keys: Sequence[str]) -> None:
        together = [key for key in full_keys if is_xml_text(key)] if self._bulk_delete else []
        if together:
            try:
                await self._delete_together(together)
            except NotSupported:
                self._bulk_delete = False
                together = []
        sent = set(together)
        alone = [self._delete(key) for key in full_keys if key not in sent]
        for outcome in await asyncio.gather(*alone, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _delete_together(self, full_keys: Sequence[str]) -> None:
        arguments = {"Delete": {"Objects": [{"Key": key} for key in full_keys], "Quiet": True}}
        reply = await self._calls.call(S3ClientRequest(StoreOperation.DELETE_MANY, arguments=arguments))
        for error in reply.get("Errors", ()):
            code = error.get("Code", "")
            if code != "NoSuchKey":
                # The response was a 200; an unknown code leaves the outcome open.
                raise failure(ErrorResponse(500, code), StoreOperation.DELETE_MANY, error.get("Key", ""))

    async def _delete(self, full_key: str) -> None:
        try:
            await self._calls.call(S3ClientRequest(StoreOperation.DELETE, full_key))
        except NoSuchBucket:
            raise
        except NotFound:
            return


def _read_all(reply: Reply, *, partial: bool = False) -> bytes:
    body: S3Body = reply["Body"]
    try:
        if partial:
            _check_partial(reply)
        return body.read()
    finally:
        body.close()


def _read_range(reply: Reply) -> bytes:
    return _read_all(reply, partial=True)


def _check_partial(reply: Reply) -> None:
    if "ContentRange" not in reply and reply.get("ContentLength") != 0:
        raise NotSupported("the store ignored a byte range. operation=GetObject")

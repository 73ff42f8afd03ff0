"""Multipart uploads as block uploads (Put Block, Put Block List).

The service keeps uncommitted blocks per blob, not per upload:

- Any write of the blob discards all of them, also those of other uploads. The completion of such an upload raises
  WriteConflict: another writer was concurrent, and the parts must be sent again.
- Nothing can delete them without writing the blob. After an abort, the service discards them within a week.
- Sizes and order of parts are checked here, with S3's rules, because the service has none.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from ...core.errors import InvalidPart, NoSuchUpload, WriteConflict
from ..cloud.storage import CloudStorage
from ..multipart import check_completion, check_part_number
from ..seam import MIN_PART_BYTES, ByteSource, Key, ObjectVersion, PartReceipt, WriteCondition
from .client import BlobClient


class AzureUpload:
    """A multipart upload. See `MultipartUpload`. Only the process that started it can continue it."""

    def __init__(
        self, storage: CloudStorage, client: BlobClient, key: Key, upload_id: str, metadata: Mapping[str, str]
    ) -> None:
        self.key = key
        self.upload_id = upload_id
        self._storage = storage
        self._client = client
        self._full_key = storage.full_key(key)
        self._metadata = metadata
        self._parts: dict[int, PartReceipt] = {}
        self._aborted = False

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Upload a part. See `MultipartUpload.upload_part`."""
        check_part_number(number)
        self._check_open()
        sent = bytes(body)
        # A part sent again gets another block, so that the receipt of the first one becomes invalid.
        receipt = PartReceipt(number, secrets.token_hex(8), len(sent))
        block_id = self._block_id(receipt)
        if sent:  # the service has no empty blocks
            await self._storage.run(lambda: self._client.put_block(self._full_key, block_id, sent))
        self._check_open()
        self._parts[number] = receipt
        return receipt

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object. See `MultipartUpload.complete`."""
        self._check_open()
        chosen = check_completion(parts, self._parts, MIN_PART_BYTES)
        block_ids = [self._block_id(receipt) for receipt in chosen if receipt.size]
        try:
            return await self._storage.run(
                lambda: self._client.put_block_list(self._full_key, block_ids, self._metadata, condition)
            )
        except InvalidPart as error:
            raise WriteConflict(
                f"another write of the object discarded the parts of this upload. key={self.key!r}"
            ) from error

    async def abort(self) -> None:
        """End the upload. Idempotent. The service discards its blocks within a week."""
        self._aborted = True

    def _block_id(self, receipt: PartReceipt) -> str:
        # All block ids of a blob must have the same length.
        return f"{self.upload_id}{receipt.number:05d}{receipt.etag}"

    def _check_open(self) -> None:
        if self._aborted:
            raise NoSuchUpload(f"upload was aborted. key={self.key!r} upload={self.upload_id}")

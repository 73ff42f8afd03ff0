"""An ObjectStorage in one container of an Azure storage account."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ..cloud.storage import CloudStorage
from ..keys import check_metadata
from ..seam import Key, Metadata
from .client import BlobClient
from .names import is_listed_in_order
from .options import AzureOptions
from .upload import AzureUpload


def new_upload_id() -> str:
    """A unique id for an upload, always of 32 characters."""
    return secrets.token_hex(16)


class AzureStorage(CloudStorage):
    """Objects in a container, under a prefix. Used from one event loop.

    A hierarchical namespace does not list by bytes; then a listing is read whole and sorted.
    """

    def __init__(self, client: BlobClient, options: AzureOptions, *, new_id: Callable[[], str] = new_upload_id) -> None:
        super().__init__(
            client,
            key_prefix=options.key_prefix,
            max_concurrency=options.max_concurrency,
            keeps_order=lambda key: is_listed_in_order(key, hierarchical=options.hierarchical),
        )
        self._blobs = client
        self._new_id = new_id

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> AzureUpload:
        """Create a multipart upload. Sends no request: the service knows blocks, but no uploads."""
        return AzureUpload(self, self._blobs, key, self._new_id(), check_metadata(metadata))

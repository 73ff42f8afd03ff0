"""Opens a GCS store from its options."""

from __future__ import annotations

import asyncio

from ...core.extras import require_extra
from ..cloud.client import CloudClient
from ..cloud.storage import CloudStorage
from .options import GcsOptions


async def connect_gcs(options: GcsOptions) -> CloudStorage:
    """Open a store. Only the search for default credentials may send requests: a wrong bucket shows at the first one.

    Raises InvalidSetting for an invalid key file, Unauthenticated if no credentials are found. Multipart uploads are
    not supported: the library has them for local files only.
    """
    client = await asyncio.to_thread(_make_client, options)
    return CloudStorage(client, key_prefix=options.key_prefix, max_concurrency=options.max_concurrency)


def _make_client(options: GcsOptions) -> CloudClient:
    require_extra("gcs", "storage on Google Cloud Storage")
    # Imported on demand: the library is an extra, and slow to load.
    from .sdk import GcsClient

    return GcsClient(options)

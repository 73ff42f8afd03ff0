"""Opens an Azure store from its options."""

from __future__ import annotations

import asyncio

from ...core.extras import require_extra
from .client import BlobClient
from .options import AzureOptions
from .storage import AzureStorage


async def connect_azure(options: AzureOptions) -> AzureStorage:
    """Open a store. No request is sent: a wrong container or credential shows at the first one."""
    return AzureStorage(await asyncio.to_thread(_make_client, options), options)


def _make_client(options: AzureOptions) -> BlobClient:
    require_extra("azure", "storage on Azure")
    # Imported on demand: the library is an extra, and slow to load.
    from .sdk import AzureBlobClient

    return AzureBlobClient(options)

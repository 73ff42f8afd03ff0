"""Opens the object store of the settings, and checks that it belongs to the metadata store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from lakebed.core.clock import Clock, SystemClock
from lakebed.core.settings import Settings, StorageKind
from lakebed.meta.seam import MetaStore
from lakebed.objects.blobs.ingest import OpenWriter
from lakebed.objects.blobs.store_attachment import StoreAttachment
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.ownership import MARKER_KEY, StoreOwnership
from lakebed.storage.seam import ObjectStorage
from lakebed.streams.log.remote.log_rows import sample_manifests
from lakebed.streams.servers.registry import ServerRegistry

from .data_lock import found_a_file

BYTES_FOLDER: Final = "bytes"


async def open_storage(settings: Settings, clock: Clock) -> tuple[ObjectStorage, OpenWriter | None]:
    """The object store of the settings; and, unless it is a folder, the writers of large bodies."""
    if settings.storage.kind is StorageKind.S3:
        # Here, because a server on a folder starts faster without this import.
        from .remote_storage import open_remote

        return await open_remote(settings.storage.s3, clock)
    return await asyncio.to_thread(_open_folder, settings.server.data / BYTES_FOLDER, clock), None


def _open_folder(root: Path, clock: Clock) -> FolderStorage:
    if root.is_file():
        raise found_a_file(root / MARKER_KEY)
    return FolderStorage(root, clock)


async def confirm_object_store(settings: Settings, meta: MetaStore, storage: ObjectStorage) -> StoreOwnership:
    """The check that precedes every deletion. Raises StoreMismatch, Unavailable."""
    return await attachment_of(settings, meta, storage).confirm_at_start()


def attachment_of(settings: Settings, meta: MetaStore, storage: ObjectStorage) -> StoreAttachment:
    """The metadata store and the object store as a pair."""
    return StoreAttachment(
        meta,
        storage,
        store_address(settings),
        sample_streams=lambda limit: sample_manifests(meta, limit),
        before_attaching=ServerRegistry(meta, SystemClock()).clear,
    )


def store_address(settings: Settings) -> str:
    """The object store in words for operators: a folder, or bucket, prefix and endpoint."""
    if settings.storage.kind is StorageKind.FOLDER:
        return str(settings.server.data / BYTES_FOLDER)
    store = settings.storage.s3
    address = f"s3://{store.bucket}/{store.prefix}".rstrip("/")
    return address if store.endpoint is None else f"{address} at {store.endpoint}"

"""Opens the metadata store of the settings: migrates its schema and checks its master keys."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from lakebed.core.errors import Unavailable
from lakebed.core.extras import require_extra
from lakebed.core.settings import Settings
from lakebed.governance.credentials.master_key_fingerprints import verify_master_keys
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.meta.migrations import migrate
from lakebed.meta.seam import MetaStore

SQLITE_FILE: Final = "meta.db"


async def open_metadata(settings: Settings, keys: MasterKeys) -> MetaStore:
    """The store, for one process and its event loop; the caller closes it.

    Raises Unavailable, StorageFull, Corrupted; StateConflict if a newer release wrote it; InvalidSetting if it was
    written with other master keys; MissingExtra without the PostgreSQL driver.
    """
    store = await (_open_postgres(settings) if settings.meta.is_postgres else _open_sqlite(settings))
    try:
        await migrate(store)
        await verify_master_keys(store, keys)
    except BaseException:
        await asyncio.shield(store.close())
        raise
    return store


async def _open_sqlite(settings: Settings) -> MetaStore:
    from lakebed.meta.sqlite.store import SqliteStore

    folder = settings.server.data
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot create the data folder. path={folder} error={error.strerror}") from error
    return await SqliteStore.open(folder / SQLITE_FILE)


async def _open_postgres(settings: Settings) -> MetaStore:
    require_extra("postgres", "meta.url: PostgreSQL")
    from lakebed.meta.postgres.store import PostgresStore

    return await PostgresStore.open(
        settings.meta.url.reveal(), connections=settings.meta.pool_size, random=random.SystemRandom()
    )

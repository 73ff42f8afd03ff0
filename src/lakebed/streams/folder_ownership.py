"""Proof that the local folder of stream tables belongs to the deployment: a file in it carries the deployment's id.

Logs and KV indexes are found by table ids, which every deployment counts from 1. A server with other metadata would
take the records of one table for those of another, and delete them with it (ADR 40).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from lakebed.core.errors import ForeignStore
from lakebed.core.ids import DeploymentId
from lakebed.meta.deployment import establish_deployment_id, find_deployment_id
from lakebed.meta.seam import MetaStore
from lakebed.storage.files import sync_folder

from .log.recovery import replace_file

__all__ = ["FolderOwnership"]

ID_FILE: Final = "deployment"
LOGS_FOLDER: Final = "logs"
_KNOWN_TABLES: Final = "SELECT id FROM stream_tables UNION SELECT table_id FROM stream_dropped"


class FolderOwnership:
    """Compares the id in the folder with the id in the metadata store."""

    def __init__(self, meta: MetaStore, folder: Path) -> None:
        self._meta = meta
        self._folder = folder

    async def confirm_at_start(self) -> None:
        """Check that folder and metadata belong together; the first time, make them. Raises ForeignStore."""
        own = await establish_deployment_id(self._meta)
        found = await asyncio.to_thread(self._read)
        if found is None:
            await self._confirm_unmarked(own)
            await asyncio.to_thread(self._write, own)
        elif found != own:
            raise self._refusal("belongs to another deployment", found, own)

    async def confirm(self) -> None:
        """Return if both ids are the same now. Raises ForeignStore."""
        found, own = await asyncio.to_thread(self._read), await find_deployment_id(self._meta)
        if found is None or found != own:
            raise self._refusal("does not belong to this deployment", found, own)

    async def _confirm_unmarked(self, own: DeploymentId) -> None:
        """Folders from before ids: all tables in it must be known. An empty one is anybody's."""
        present = await asyncio.to_thread(self._table_ids)
        known = {int(row[0]) for row in await self._meta.rows(_KNOWN_TABLES)} if present else set()
        if not present <= known:
            raise self._refusal("holds stream tables that the metadata does not know", None, own)

    def _refusal(self, what: str, found: DeploymentId | None, own: DeploymentId | None) -> ForeignStore:
        return ForeignStore(
            f"the local folder of stream tables {what}; nothing was changed. folder={self._folder}"
            f" folder_deployment={found or 'none'} metadata_deployment={own}."
            " Use the metadata that belongs to it (server.data, meta.url), or move the folder away"
        )

    def _read(self) -> DeploymentId | None:
        try:
            return DeploymentId((self._folder / ID_FILE).read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None

    def _write(self, own: DeploymentId) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(str(self._folder / ID_FILE), own.encode())
        sync_folder(str(self._folder))

    def _table_ids(self) -> set[int]:
        folder = self._folder / LOGS_FOLDER
        return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.is_dir() else set()

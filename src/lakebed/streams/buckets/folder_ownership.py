"""Checks that the local folder of stream tables belongs to the deployment, by a file with the deployment id.

Logs and KV indexes are stored by table id, and every deployment counts these from 1. A server with another metadata
store would mix up the records of tables, and delete them (ADR 40).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from lakebed.core.errors import StoreMismatch
from lakebed.core.ids import DeploymentId
from lakebed.meta.deployment import establish_deployment_id, find_deployment_id
from lakebed.meta.seam import MetaStore
from lakebed.storage.folder.files import sync_folder

from ..log.local.recovery import replace_file

__all__ = ["SERVER_NAME_FILE", "FolderOwnership"]

ID_FILE: Final = "deployment"
LOGS_FOLDER: Final = "logs"
SERVER_NAME_FILE: Final = "server-name"
"""Contains the random name that identifies the folder's server in the metadata."""

_KNOWN_TABLES: Final = "SELECT id FROM stream_tables UNION SELECT table_id FROM stream_dropped"
_HAS_TAILS: Final = "SELECT 1 FROM stream_logs WHERE tail_server = ? LIMIT 1"


class FolderOwnership:
    """Compares the deployment ids of the folder and the metadata store."""

    def __init__(self, meta: MetaStore, folder: Path) -> None:
        self._meta = meta
        self._folder = folder

    async def confirm_at_start(self) -> None:
        """Check that folder and metadata store match; mark a new folder. Raises StoreMismatch."""
        own = await establish_deployment_id(self._meta)
        found = await self._read_id()
        if found is None:
            await self._confirm_unmarked(own)
            await asyncio.to_thread(self._write, own)
        elif found != own:
            raise self._mismatch("belongs to another deployment", found, own)

    async def confirm(self) -> None:
        """Return if both ids are equal now. Raises StoreMismatch."""
        found, own = await self._read_id(), await find_deployment_id(self._meta)
        if found is None or found != own:
            raise self._mismatch("does not belong to this deployment", found, own)

    async def _confirm_unmarked(self, own: DeploymentId) -> None:
        """Accept a folder from before deployment ids if the metadata store has its server or all of its tables.

        The server suffices: tables that were dropped while another server led are still in the folder. An empty folder
        is accepted.
        """
        present = await asyncio.to_thread(self._table_ids)
        known = {int(row[0]) for row in await self._meta.rows(_KNOWN_TABLES)} if present else set()
        if not present <= known and not await self._has_tails():
            raise self._mismatch("contains stream tables that the metadata store does not have", None, own)

    async def _has_tails(self) -> bool:
        """Whether the metadata store has logs whose newest records exist only in this folder."""
        name = await asyncio.to_thread(self._read, SERVER_NAME_FILE)
        return name is not None and await self._meta.row(_HAS_TAILS, name) is not None

    def _mismatch(self, problem: str, found: DeploymentId | None, own: DeploymentId | None) -> StoreMismatch:
        return StoreMismatch(
            f"the local folder of stream tables {problem}; nothing was changed. folder={self._folder}"
            f" folder_deployment={found or 'none'} metadata_deployment={own}."
            " Use the metadata store of that deployment (server.data, meta.url), or move the folder away"
        )

    async def _read_id(self) -> DeploymentId | None:
        found = await asyncio.to_thread(self._read, ID_FILE)
        return None if found is None else DeploymentId(found)

    def _read(self, file: str) -> str | None:
        try:
            return (self._folder / file).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def _write(self, own: DeploymentId) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(str(self._folder / ID_FILE), own.encode())
        sync_folder(str(self._folder))

    def _table_ids(self) -> set[int]:
        folder = self._folder / LOGS_FOLDER
        return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.is_dir() else set()

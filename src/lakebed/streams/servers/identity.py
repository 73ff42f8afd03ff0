"""The name and the number of a stream server, kept in its data folder across restarts."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Final

from lakebed.core.errors import Corrupted
from lakebed.meta.seam import MetaStore
from lakebed.storage.folder.files import make_folder, sync_folder

from ..buckets.folder_ownership import SERVER_NAME_FILE
from ..id_ranges import IdRanges
from ..log.local.recovery import replace_file

__all__ = ["establish_server_name", "establish_server_number"]

_NUMBER_FILE: Final = "server-number"


def establish_server_name(folder: Path) -> str:
    """The server's unique name, made at the first start. Raises Corrupted if its file is empty."""
    make_folder(str(folder))
    path = folder / SERVER_NAME_FILE
    if not path.exists():
        _write(path, secrets.token_hex(8))
    name = path.read_text(encoding="ascii").strip()
    if not name:
        raise Corrupted(
            "the name of this stream server is lost: its file is empty. Write the name back that `lakebed streams "
            f"status` shows for this server; under another one its records stay stranded. file={path}"
        )
    return name


async def establish_server_number(meta: MetaStore, folder: Path) -> int:
    """The server's number among all that share the metadata store, made at the first start: the Fluss server id."""
    path = folder / _NUMBER_FILE
    if not path.exists():
        (number,) = await IdRanges(meta).take("servers", 1, first=1)
        await asyncio.to_thread(_write, path, str(number))
    return int(path.read_text(encoding="ascii"))


def _write(path: Path, text: str) -> None:
    """Write a file that survives a loss of power: rows of logs name the only server that has their records."""
    replace_file(str(path), text.encode("ascii"))
    sync_folder(str(path.parent))

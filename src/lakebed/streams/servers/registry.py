"""The stream servers that share a metadata store: their names, numbers, heartbeats and common object store."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.storage.folder.files import make_folder, sync_folder
from lakebed.storage.seam import Key, ObjectStorage

from ..buckets.folder_ownership import SERVER_NAME_FILE
from ..id_ranges import IdRanges
from ..log.local.recovery import replace_file

__all__ = ["RegisteredServer", "ServerRegistry", "establish_server_name", "establish_server_number", "join_servers"]

_NUMBER_FILE: Final = "server-number"
_REPORT: Final = """
INSERT INTO stream_servers (name, number, address, acks_uploaded, seen_ms, expires_ms, failure)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET number = excluded.number, address = excluded.address,
acks_uploaded = excluded.acks_uploaded, seen_ms = excluded.seen_ms, expires_ms = excluded.expires_ms,
failure = excluded.failure
"""
_ALL: Final = """
SELECT name, number, address, acks_uploaded, failure, seen_ms, expires_ms FROM stream_servers ORDER BY number
"""
_REMOVE: Final = "DELETE FROM stream_servers WHERE name = ?"
_REMOVE_ALL: Final = "DELETE FROM stream_servers"


@dataclass(frozen=True, slots=True)
class RegisteredServer:
    """A stream server, as of its last heartbeat."""

    name: str
    number: int
    address: str
    acks_after_upload: bool
    failure: str = ""
    """Why it cannot serve, or upload, some of its buckets."""
    seen_ms: int = 0
    expires_ms: int = 0
    """When it counts as down without another heartbeat."""


class ServerRegistry:
    """The heartbeats of all servers."""

    def __init__(self, meta: MetaStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def report(self, server: RegisteredServer, ttl_seconds: float) -> None:
        """Record a heartbeat. Without another one the server counts as down after `ttl_seconds`."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(
                _REPORT,
                server.name,
                server.number,
                server.address,
                int(server.acks_after_upload),
                now_ms,
                now_ms + round(ttl_seconds * 1000),
                server.failure,
            )

        await self._meta.transact(work)

    async def all(self, reader: Reader | None = None) -> list[RegisteredServer]:
        """All servers that ever sent a heartbeat and were not forgotten, by number."""
        return [
            RegisteredServer(name, int(number), address, bool(acks), failure, int(seen), int(expires))
            for name, number, address, acks, failure, seen, expires in await (reader or self._meta).rows(_ALL)
        ]

    async def remove(self, tx: Transaction, name: str) -> None:
        """Forget a server. Its next heartbeat registers it again."""
        await tx.run(_REMOVE, name)

    async def withdraw(self, name: str) -> None:
        """Forget a server that does not start."""

        async def work(tx: Transaction) -> None:
            await self.remove(tx, name)

        await self._meta.transact(work)

    async def clear(self) -> None:
        """Forget all servers: the object store is replaced, and each server registers when it starts on the new one."""

        async def work(tx: Transaction) -> None:
            await tx.run(_REMOVE_ALL)

        await self._meta.transact(work)


def establish_server_name(folder: Path) -> str:
    """The server's unique name, generated at the first start. Raises Corrupted if its file is empty."""
    make_folder(str(folder))
    path = folder / SERVER_NAME_FILE
    if not path.exists():
        _write(path, secrets.token_hex(8))
    name = path.read_text(encoding="ascii").strip()
    if not name:
        raise Corrupted(
            "the name file of this stream server is empty. Restore the name that `lakebed streams status` shows for "
            f"this server; under another name its records stay stranded. file={path}"
        )
    return name


async def establish_server_number(meta: MetaStore, folder: Path) -> int:
    """The server's number, unique in the metadata store, assigned at the first start: the Fluss server id."""
    path = folder / _NUMBER_FILE
    if not path.exists():
        (number,) = await IdRanges(meta).take("servers", 1, first=1)
        await asyncio.to_thread(_write, path, str(number))
    return int(path.read_text(encoding="ascii"))


def _write(path: Path, text: str) -> None:
    """Write a file durably: log rows refer to this server as the only one with their records."""
    replace_file(str(path), text.encode("ascii"))
    sync_folder(str(path.parent))


async def join_servers(
    storage: ObjectStorage, registry: ServerRegistry, server: RegisteredServer, *, prefix: str, ttl_seconds: float
) -> None:
    """Register a starting server if all registered servers use `storage`. Raises InvalidSetting, Unavailable.

    Records that were uploaded before they were acknowledged survive the loss of their server only if the other servers
    read the same store. A folder on each server's own disk does not qualify, whatever the settings say. So each server
    writes an object under its name, and checks for the objects of all registered servers, also of those that are down:
    a server with another store would continue their tables without their uploads.
    """
    await storage.put(Key(f"{prefix}/{server.name}"), b"")
    is_known = any(each.name == server.name for each in await registry.all())
    # Before the check: of two servers that start at the same time, at least one finds the other.
    await registry.report(server, ttl_seconds)
    folder = f"{prefix}/"
    found = {head.key.removeprefix(folder) async for head in storage.list_prefix(folder)}
    others = [each for each in await registry.all() if each.name not in found]
    if not others:
        return
    if not is_known:
        await registry.withdraw(server.name)
    other = others[0]
    raise InvalidSetting(
        "storage: another stream server on this metadata store uses another object store, so neither can read the "
        "other's uploads. Configure one S3 bucket and prefix, or one shared folder, for all servers. If the other "
        f"server is lost for good, run `lakebed streams forget-server {other.name}` on any running server, with or "
        f"without streams.listen. server={other.number} address={other.address}"
    )

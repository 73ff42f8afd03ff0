"""Confirms at start that all stream servers of a metadata store have one object store.

Records that a server uploaded before it acknowledged them survive its loss only if the others read the same store. A
folder on each server's own disk is not that, whatever the settings say. So each server leaves an object under its name,
and looks for those of all servers that are registered. Also of those that are down: a server with another store would
lead in their place, and continue their tables without what they have uploaded.
"""

from __future__ import annotations

from lakebed.core.errors import InvalidSetting
from lakebed.storage.seam import Key, ObjectStorage

from .registry import SeenServer, ServerRegistry

__all__ = ["join_servers"]


async def join_servers(
    storage: ObjectStorage, registry: ServerRegistry, server: SeenServer, *, prefix: str, ttl_seconds: float
) -> None:
    """Register a server that starts, if all that are registered use `storage`. Raises InvalidSetting, Unavailable."""
    await storage.put(Key(f"{prefix}/{server.name}"), b"")
    is_known = any(each.name == server.name for each in await registry.all())
    # First: of two that start at the same time at least one finds the other.
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
        "storage: another stream server on this metadata store uses another object store, so neither reads what the "
        "other has uploaded. Give all servers one S3 bucket and prefix, or one folder that all of them mount. If the "
        f"other server is gone for good: `lakebed streams forget-server {other.name}`, of a server that runs, with or "
        f"without streams.listen. server={other.number} address={other.address}"
    )

"""Confirms at start that all stream servers of a metadata store have one object store.

Records that a server uploaded before it acknowledged them survive its loss only if the others read the same store. A
folder on each server's own disk is not that, whatever the settings say. So each server leaves an object under its name,
and looks for those of the servers that run.
"""

from __future__ import annotations

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidSetting, NotFound
from lakebed.storage.seam import Key, ObjectStorage

from .server_registry import ServerRegistry

__all__ = ["confirm_shared"]


async def confirm_shared(
    storage: ObjectStorage, registry: ServerRegistry, clock: Clock, *, prefix: str, server: str
) -> None:
    """Return if every other server that runs uses `storage`. Raises InvalidSetting if one does not, Unavailable."""
    await storage.put(Key(f"{prefix}/{server}"), b"")
    for other in await registry.all():
        if other.name == server or other.expires_ms <= clock.now_ms():
            continue
        try:
            await storage.head(Key(f"{prefix}/{other.name}"))
        except NotFound as error:
            raise InvalidSetting(
                "storage: another stream server on this metadata store uses another object store, so neither reads "
                "what the other has uploaded. Give all servers one S3 bucket and prefix, or one folder that all of "
                f"them mount. server={other.number} address={other.address}"
            ) from error

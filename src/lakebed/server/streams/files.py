"""Where clients of streams read files themselves, and the role whose keys they get for it, from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.settings import Settings
from lakebed.storage.credentials import HostEnvironment
from lakebed.storage.credentials.sts import TokenService
from lakebed.storage.s3 import S3Options, credentials_of, region_of
from lakebed.streams.authorization import StreamAuthorizer
from lakebed.streams.file_access import FileAccess, FileLocation, RoleCredentials
from lakebed.streams.log.remote.remote_log import RemoteSettings
from lakebed.streams.tables import StreamTables

from ..stores.remote_storage import s3_options

STREAMS_PREFIX: Final = RemoteSettings().prefix
"""The folder of all streams in the byte store."""


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """Files that clients read themselves."""

    place: FileLocation
    keys: RoleCredentials | None
    """None: clients have access of their own."""

    async def close(self) -> None:
        """Hand out no more keys."""
        if self.keys is not None:
            await self.keys.close()


async def open_files(settings: Settings, clock: Clock) -> StreamFiles | None:
    """What clients are to read themselves; None: nothing. Raises InvalidSetting."""
    if settings.streams.remote_address is None:
        return None
    options, around = s3_options(settings.storage.s3), HostEnvironment.of_this_machine(clock=clock)
    region, role = await region_of(options, around), settings.streams.remote_role
    place = _place(settings.streams.remote_address, options, region, role)
    if role is None:
        return StreamFiles(place, None)
    service = TokenService(around, region, settings.streams.remote_sts_endpoint or options.endpoint)
    return StreamFiles(place, RoleCredentials(role, service, credentials_of(options, around, region)))


def file_access(
    files: StreamFiles | None, clock: Clock, authorizer: StreamAuthorizer, tables: StreamTables
) -> FileAccess:
    """Who gets what of that."""
    return (
        FileAccess(clock, authorizer, tables)
        if files is None
        else FileAccess(clock, authorizer, tables, files.place, files.keys)
    )


def _place(address: str, options: S3Options, region: str, role: str | None) -> FileLocation:
    partition = "aws" if role is None else role.split(":")[1]
    return FileLocation(
        address.rstrip("/"),
        options.bucket,
        f"{options.key_prefix}{STREAMS_PREFIX}",
        region,
        options.endpoint,
        options.uses_path_style,
        # Stores that are not AWS's call roles as they like, and things in policies as AWS does.
        partition if partition.startswith("aws") else "aws",
    )

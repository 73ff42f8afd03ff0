"""Where clients read remote segments and KV snapshots themselves, and the role for their credentials (ADR 39)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.settings import StreamsSettings
from lakebed.storage.credentials import HostEnvironment
from lakebed.storage.credentials.sts import TokenService
from lakebed.storage.s3 import S3Options, credentials_of, region_of

from .file_access import FileLocation, RoleCredentials
from .log.remote.remote_log import RemoteSettings

__all__ = ["STREAMS_PREFIX", "RemoteFiles", "open_remote_files"]

STREAMS_PREFIX: Final = RemoteSettings().prefix
"""The folder of all streams in the object store."""


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Files in the object store that clients read themselves."""

    location: FileLocation
    credentials: RoleCredentials | None
    """None: clients have their own access."""

    async def close(self) -> None:
        """Stop vending credentials."""
        if self.credentials is not None:
            await self.credentials.close()


async def open_remote_files(
    settings: StreamsSettings, s3_options: Callable[[], S3Options], clock: Clock
) -> RemoteFiles | None:
    """The files that clients read themselves; None if `streams.remote_address` is not set. Raises InvalidSetting."""
    if settings.remote_address is None:
        return None
    options = s3_options()
    environment = HostEnvironment.of_this_machine(clock=clock)
    region, role = await region_of(options, environment), settings.remote_role
    partition = "aws" if role is None else role.split(":")[1]
    location = FileLocation(
        settings.remote_address.rstrip("/"),
        options.bucket,
        f"{options.key_prefix}{STREAMS_PREFIX}",
        region,
        options.endpoint,
        options.uses_path_style,
        # Other S3 stores have their own role names, and AWS's partition in policies.
        partition if partition.startswith("aws") else "aws",
    )
    if role is None:
        return RemoteFiles(location, None)
    service = TokenService(environment, region, settings.remote_sts_endpoint or options.endpoint)
    return RemoteFiles(location, RoleCredentials(role, service, credentials_of(options, environment, region)))

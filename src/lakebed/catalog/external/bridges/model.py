"""The values of a bridge: its configuration, the secrets apart from it, and its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.catalog.identifiers import Identifier, Levels
from lakebed.catalog.model import Catalog, Entry, Namespace, Properties

from ..remote.model import RemoteAddress, RemoteAuth

POLL_SECONDS: Final = 60
"""The default poll interval."""


class ExternalCatalogKind(StrEnum):
    """The kind of an external catalog."""

    POLARIS = "polaris"
    GLUE = "glue"
    DLF = "dlf"
    HIVE = "hive-metastore"
    REST = "iceberg-rest"
    """Any catalog that serves the Iceberg REST protocol: this server can read it."""
    FOLDER = "metadata-folder"
    """No catalog, but a folder of metadata files in a bucket of this server: this server can read it."""

    @property
    def is_readable(self) -> bool:
        """Whether this server can read the current state of its tables."""
        return self in (ExternalCatalogKind.REST, ExternalCatalogKind.FOLDER)


class SyncMode(StrEnum):
    """When a table is synced: on request only, or also at intervals."""

    MANUAL = "manual"
    POLL = "poll"


class SyncStatus(StrEnum):
    """The result of the last sync."""

    NEVER = "never-synced"
    REGISTERED = "registered"
    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    """Both tables have new commits, or are different tables: nothing moved."""
    REFUSED = "refused"
    """The external state cannot follow the state here, or the external catalog denies access."""
    MISSING = "missing"
    """The external table does not exist, or its metadata file is not on this server yet."""
    UNREACHABLE = "unreachable"

    @property
    def is_failure(self) -> bool:
        """Whether the next poll waits longer."""
        return self in (SyncStatus.CONFLICT, SyncStatus.REFUSED, SyncStatus.MISSING, SyncStatus.UNREACHABLE)


class BridgeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a bridge. Stored in rows."""

    catalog: ExternalCatalogKind
    external_namespace: tuple[str, ...] = ()
    external_table: str = ""
    external_catalog_id: str | None = None
    external_table_uuid: str | None = None
    metadata_location: str | None = None
    external_version_token: str | None = None
    sync_mode: SyncMode = SyncMode.MANUAL
    poll_seconds: int = POLL_SECONDS
    uri: str = ""
    warehouse: str = ""
    folder: str = ""
    auth: RemoteAuth = RemoteAuth()
    properties: Properties = {}

    @property
    def address(self) -> RemoteAddress:
        """The address of the external catalog, if it has one."""
        return RemoteAddress(self.uri, self.warehouse)

    @property
    def follows(self) -> tuple[object, ...]:
        """The identity of the external table: the state of the bridge stays valid while it is the same."""
        return self.catalog, self.external_namespace, self.external_table, self.uri, self.catalog, self.folder


class BridgeState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a bridge. Stored in rows."""

    status: SyncStatus = SyncStatus.NEVER
    message: str = ""
    checked_ms: int | None = None
    failures: int = 0
    """Failed syncs in a row."""
    entry: str = ""
    """The id of the table that was synced last; empty before the first sync."""
    synced_at: str | None = None
    synced_token: str | None = None
    synced_ms: int | None = None
    """The metadata file of the last sync, the table's version after it, and its time. The version is
    informative: it also changes without a commit."""
    action: str = ""
    """The last change that a sync made: it registered the table, or committed to it."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """One bridge, as its row has it."""

    namespace_id: int
    name: str
    revision: str
    config: BridgeConfig
    sealed: bytes | None = field(repr=False)
    state: BridgeState
    due_ms: int | None
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class BridgedTable:
    """A table name and its bridge."""

    catalog: Catalog
    namespace: Namespace
    identifier: Identifier
    entry: Entry | None
    """The holder of the name, dropped or not."""
    bridge: Bridge | None

    @property
    def live(self) -> Entry | None:
        """The holder of the name, unless it was dropped."""
        return None if self.entry is None or self.entry.dropped_ms is not None else self.entry

    def after(self, entry: Entry, bridge: Bridge) -> BridgedTable:
        """The same after both changed."""
        return BridgedTable(self.catalog, self.namespace, self.identifier, entry, bridge)


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """The current state of an external table."""

    metadata_at: str
    uuid: str | None
    log: frozenset[str]
    """Its earlier metadata files, from its metadata log."""


def external_name(config: BridgeConfig) -> str:
    """The external table, for messages."""
    levels: Levels = config.external_namespace
    return ".".join((*levels, config.external_table)) if config.external_table else config.folder


encode_config = msgspec.json.Encoder().encode
decode_config = msgspec.json.Decoder(BridgeConfig).decode
encode_state = msgspec.json.Encoder().encode
decode_state = msgspec.json.Decoder(BridgeState).decode

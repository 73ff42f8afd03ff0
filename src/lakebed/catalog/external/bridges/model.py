"""The values of a bridge: what was configured, the secrets apart from it, and how things stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.catalog.identifiers import Identifier, Levels
from lakebed.catalog.model import Catalog, Entry, Namespace, Properties

from ..remote.model import RemoteAddress, RemoteAuth

POLL_SECONDS: Final = 60
"""How often a catalog is asked unless a bridge says otherwise."""


class BridgedCatalogKind(StrEnum):
    """What is on the other side."""

    POLARIS = "polaris"
    GLUE = "glue"
    DLF = "dlf"
    HIVE = "hive-metastore"
    REST = "iceberg-rest"
    """Any catalog that speaks the Iceberg REST protocol: it can be asked."""
    FOLDER = "metadata-folder"
    """No catalog at all, but a folder of metadata files in a bucket of this server: it can be looked into."""

    @property
    def can_be_asked(self) -> bool:
        """Whether this server can find out by itself where the other side is."""
        return self in (BridgedCatalogKind.REST, BridgedCatalogKind.FOLDER)


class SyncMode(StrEnum):
    """Who looks for news on the other side."""

    MANUAL = "manual"
    POLL = "poll"


class SyncStatus(StrEnum):
    """What came of the last look at the other side."""

    NEVER = "never-synced"
    REGISTERED = "registered"
    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    """Both sides went on, or are different tables: nothing moved here."""
    REFUSED = "refused"
    """What the other side has cannot follow what is here, or the other side does not let us in."""
    MISSING = "missing"
    """The other side has no such table, or its metadata file is not on this server (yet)."""
    UNREACHABLE = "unreachable"

    @property
    def is_failure(self) -> bool:
        """Whether the next look can wait longer."""
        return self in (SyncStatus.CONFLICT, SyncStatus.REFUSED, SyncStatus.MISSING, SyncStatus.UNREACHABLE)


class BridgeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was configured."""

    catalog: BridgedCatalogKind
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
        """Where the other catalog is, if it is one that can be asked."""
        return RemoteAddress(self.uri, self.warehouse)

    @property
    def follows(self) -> tuple[object, ...]:
        """What is followed: as long as it is the same, what was learned of it holds."""
        return self.catalog, self.external_namespace, self.external_table, self.uri, self.warehouse, self.folder


class BridgeState(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand."""

    status: SyncStatus = SyncStatus.NEVER
    message: str = ""
    checked_ms: int | None = None
    failures: int = 0
    """How often in a row the last looks came to nothing."""
    entry: str = ""
    """The table that was synced last; empty until one was."""
    synced_at: str | None = None
    synced_token: str | None = None
    synced_ms: int | None = None
    """The metadata file that it was synced to, the version that it had then here, and when. The version is for people:
    it changes without a commit."""
    action: str = ""
    """What the last sync that moved something did: it registered the table, or committed to it."""


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
class Bridged:
    """A name, and the bridge that it has."""

    catalog: Catalog
    namespace: Namespace
    identifier: Identifier
    entry: Entry | None
    """What has the name, dropped or not."""
    bridge: Bridge | None

    @property
    def live(self) -> Entry | None:
        """What has the name, unless it was dropped."""
        return None if self.entry is None or self.entry.dropped_ms is not None else self.entry

    def after(self, entry: Entry, bridge: Bridge) -> Bridged:
        """The same after both changed."""
        return Bridged(self.catalog, self.namespace, self.identifier, entry, bridge)


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """Where the other side is."""

    metadata_at: str
    uuid: str | None
    log: frozenset[str]
    """Metadata files that it had before, as far as it says."""


def external_name(config: BridgeConfig) -> str:
    """The table on the other side, for people."""
    levels: Levels = config.external_namespace
    return ".".join((*levels, config.external_table)) if config.external_table else config.folder


encode_config = msgspec.json.Encoder().encode
decode_config = msgspec.json.Decoder(BridgeConfig).decode
encode_state = msgspec.json.Encoder().encode
decode_state = msgspec.json.Decoder(BridgeState).decode

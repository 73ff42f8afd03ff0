"""Tables of external catalogs: import by metadata file, bridge and sync."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from lakebed.catalog.commits.metadata_cache import CachedMetadata
from lakebed.catalog.external.bridges.model import (
    POLL_SECONDS,
    Bridge,
    BridgeConfig,
    BridgedTable,
    ExternalCatalogKind,
    SyncMode,
    SyncStatus,
)
from lakebed.catalog.external.bridges.sync_requests import SyncRequest
from lakebed.catalog.external.remote.model import AuthKind, RemoteAuth, RemoteSecrets
from lakebed.catalog.identifiers import Levels, display
from lakebed.catalog.model import Entry
from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import Location, StrictDocument, Word, check_no_fields, read_strict_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..loading import replay_table, table_response
from ..services import IcebergServices
from .tables import TABLE_PATH

POLICY_MODE: Final = "lakebed-authoritative"
CREDENTIAL_MODE: Final = "lakebed-table-credentials"
ROLLBACK_STRATEGY: Final = "retain-current-pointer"

_PolicyMode = Literal["lakebed-authoritative", "rustfs-authoritative"]
_CredentialMode = Literal["lakebed-table-credentials", "rustfs-table-credentials"]
"""Each value has two names with one meaning: clients of RustFS, which has the same routes, send its name."""

_PUBLIC_AUTH_FIELDS: Final = ("access_key_id", "region", "service", "client_id", "token_uri")
"""Fields of an authentication without secrets, with the same names in documents and in `RemoteAuth`."""

_Text = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]


class ImportDocument(StrictDocument, kw_only=True):
    """The body of an import."""

    metadata_location: Location
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    external_version_token: Word | None = None


class AuthDocument(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """Authentication to the external catalog."""

    type: AuthKind = AuthKind.NONE
    token: str = ""
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""
    region: str = ""
    service: str = ""
    client_id: str = ""
    client_secret: str = ""
    token_uri: str = ""
    scopes: list[str] = msgspec.field(default_factory=list)

    def __repr__(self) -> str:
        # Documents can appear in errors, and this one has secrets.
        return f"AuthDocument(type={self.type!r})"


class _BridgeFields(StrictDocument, kw_only=True):
    external_catalog_id: Word | None = None
    external_namespace: str | list[str] = ""
    external_table: str = ""
    external_table_uuid: Word | None = None
    metadata_location: Location | None = None
    external_version_token: Word | None = None
    policy_mode: _PolicyMode = "lakebed-authoritative"
    credential_mode: _CredentialMode = "lakebed-table-credentials"
    sync_mode: SyncMode = SyncMode.MANUAL
    poll_interval_seconds: int = POLL_SECONDS
    uri: _Text = ""
    warehouse: _Text = ""
    metadata_folder: _Text = ""
    auth: AuthDocument = msgspec.field(default_factory=AuthDocument)
    properties: dict[str, str] = msgspec.field(default_factory=dict)

    def config(self, catalog: ExternalCatalogKind) -> BridgeConfig:
        """The configuration without secrets."""
        auth = self.auth
        return BridgeConfig(
            catalog=catalog,
            external_namespace=_levels(self.external_namespace),
            external_table=self.external_table,
            external_catalog_id=self.external_catalog_id,
            external_table_uuid=self.external_table_uuid,
            metadata_location=self.metadata_location,
            external_version_token=self.external_version_token,
            sync_mode=self.sync_mode,
            poll_seconds=self.poll_interval_seconds,
            uri=self.uri,
            warehouse=self.warehouse,
            folder=self.metadata_folder,
            auth=RemoteAuth(
                kind=auth.type, scopes=tuple(auth.scopes), **{name: getattr(auth, name) for name in _PUBLIC_AUTH_FIELDS}
            ),
            properties=self.properties,
        )

    @property
    def secrets(self) -> RemoteSecrets:
        """The secrets."""
        auth = self.auth
        return RemoteSecrets(
            Secret(auth.token),
            Secret(auth.secret_access_key),
            Secret(auth.session_token),
            Secret(auth.client_secret),
        )


class BridgeDocument(_BridgeFields, kw_only=True):
    """The body of putTableBridge."""

    catalog: ExternalCatalogKind


class SyncDocument(_BridgeFields, kw_only=True):
    """The body of a sync. Configuration fields, which require `catalog`, replace the bridge's configuration."""

    catalog: ExternalCatalogKind | UnsetType = UNSET
    expected_version_token: Word | None = None
    expected_metadata_location: Location | None = None
    commit_id: Word = ""
    idempotency_key: Word = ""
    rollback_strategy: Literal["retain-current-pointer"] = "retain-current-pointer"


_SYNC_FIELDS: Final = frozenset(
    {
        "metadata_location",
        "expected_version_token",
        "expected_metadata_location",
        "commit_id",
        "idempotency_key",
        "rollback_strategy",
    }
)
"""Fields of a sync that are not configuration."""


async def import_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Import a table by its metadata file."""
    document = await read_strict_document(request, ImportDocument)
    identifier = request.table
    imported = await services.extensions.imports.import_table(
        request.mutation,
        request.catalog,
        identifier,
        document.metadata_location,
        properties=document.properties,
        external_token=document.external_version_token,
    )
    committed = imported.committed
    return await table_response(services, request, committed.catalog, identifier, committed.entry, committed.metadata)


async def get_bridge(services: IcebergServices, request: JsonRequest) -> Response:
    """The bridge of a table, if it has one."""
    return ok(_bridge_response(await services.extensions.bridges.get(request.caller, request.catalog, request.table)))


async def put_bridge(services: IcebergServices, request: JsonRequest) -> Response:
    """Set the bridge of a table."""
    document = await read_strict_document(request, BridgeDocument)
    bridged = await services.extensions.bridges.configure(
        request.caller, request.catalog, request.table, document.config(document.catalog), document.secrets
    )
    return ok(_bridge_response(bridged))


async def delete_bridge(services: IcebergServices, request: JsonRequest) -> Response:
    """Remove the bridge of a table."""
    await check_no_fields(request)
    await services.extensions.bridges.remove(request.caller, request.catalog, request.table)
    return no_content()


async def sync_bridge(services: IcebergServices, request: JsonRequest) -> Response:
    """Sync the table now."""
    document = await read_strict_document(request, SyncDocument)
    synced = await services.extensions.syncs.sync(
        request.mutation, request.catalog, request.table, _sync_request(document), services.clock.now_ms()
    )
    table = _table_document(synced.committed.entry, synced.committed.metadata)
    return ok({"action": synced.status, "table": table, "bridge": _bridge_document(synced.bridged.bridge)})


async def replay_sync(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated sync, with the current table and bridge."""
    known = await services.entries.by_id(entry_id)
    bridged = await services.extensions.bridges.get(request.caller, request.catalog, request.table)
    metadata = await services.entries.metadata(known.catalog, known.entry)
    action = bridged.bridge.state.action if bridged.bridge is not None else SyncStatus.UNCHANGED
    return ok(
        {"action": action, "table": _table_document(known.entry, metadata), "bridge": _bridge_document(bridged.bridge)}
    )


# -- documents ----------------------------------------------------------------------------------------------------


def _sync_request(document: SyncDocument) -> SyncRequest:
    config: BridgeConfig | None = None
    if isinstance(document.catalog, ExternalCatalogKind):
        config = document.config(document.catalog)
    else:
        default = SyncDocument()
        changed = [name for name in document.__struct_fields__ if getattr(document, name) != getattr(default, name)]
        if not _SYNC_FIELDS.issuperset(changed):
            raise InvalidInput("a sync with configuration fields requires a catalog", argument="catalog")
    return SyncRequest(
        config,
        document.secrets,
        document.metadata_location,
        document.expected_version_token,
        document.expected_metadata_location,
        document.commit_id or document.idempotency_key,
    )


def _levels(namespace: str | list[str]) -> Levels:
    """The levels of a namespace, given as a list or joined by dots."""
    if isinstance(namespace, str):
        return tuple(namespace.split(".")) if namespace else ()
    return tuple(namespace)


def _table_document(entry: Entry, metadata: CachedMetadata) -> dict[str, Any]:
    """A loaded table, with the version token for the next sync."""
    return {
        "metadata-location": entry.metadata_at,
        "metadata": msgspec.Raw(metadata.document),
        "config": {"warehouse-location": entry.location},
        "storage-credentials": [],
        "version-token": entry.version_token,
        "generation": entry.generation,
    }


def _bridge_response(bridged: BridgedTable) -> dict[str, Any]:
    document: dict[str, Any] = {
        "table-bucket": bridged.catalog.name,
        "namespace": display(bridged.namespace.levels),
        "table": bridged.identifier.name,
        "status": "bridge-unconfigured" if bridged.bridge is None else "bridge-configured",
        "supported-import": "metadata-location",
        "capabilities": [
            {
                "catalog": kind,
                "status": "polling-supported" if kind.is_readable else "operator-sync-supported",
                "reason": _REASONS[kind.is_readable],
            }
            for kind in ExternalCatalogKind
        ],
        "unsupported-bridges": [],
    }
    if bridged.bridge is not None:
        document["bridge"] = _bridge_document(bridged.bridge)
    return document


_REASONS: Final = {
    True: "the server reads the external table at intervals or on request",
    False: "an operator gives the metadata location; the server does not connect to the external catalog",
}


def _bridge_document(bridge: Bridge | None) -> dict[str, Any] | None:
    """A bridge without its secrets."""
    if bridge is None:
        return None
    config, state, auth = bridge.config, bridge.state, bridge.config.auth
    return {
        "catalog": config.catalog,
        "external-catalog-id": config.external_catalog_id,
        "external-namespace": display(config.external_namespace),
        "external-table": config.external_table,
        "external-table-uuid": config.external_table_uuid,
        "external-version-token": config.external_version_token,
        "metadata-location": config.metadata_location,
        "uri": config.uri,
        "warehouse": config.warehouse,
        "metadata-folder": config.folder,
        "auth": {
            "type": auth.kind,
            **{name.replace("_", "-"): getattr(auth, name) for name in _PUBLIC_AUTH_FIELDS},
            "has-secrets": bridge.sealed is not None,
        },
        "policy-mode": POLICY_MODE,
        "credential-mode": CREDENTIAL_MODE,
        "sync-mode": config.sync_mode,
        "poll-interval-seconds": config.poll_seconds if config.sync_mode is SyncMode.POLL else None,
        "rollback-strategy": ROLLBACK_STRATEGY,
        "last-sync-status": state.status,
        "last-sync-message": state.message,
        "last-checked-at-ms": state.checked_ms,
        "last-synced-at-ms": state.synced_ms,
        "last-synced-metadata-location": state.synced_at,
        "last-synced-version-token": state.synced_token,
        "consecutive-failures": state.failures,
        "next-poll-at-ms": bridge.due_ms,
        "properties": config.properties,
    }


_EXTERNAL = TABLE_PATH + "/catalog/external"

ROUTES = (
    Route(
        "importTable",
        "POST",
        TABLE_PATH + "/catalog/import",
        import_table,
        is_standard=False,
        changes=True,
        replay=replay_table,
    ),
    Route("getTableBridge", "GET", _EXTERNAL, get_bridge, is_standard=False),
    Route("putTableBridge", "PUT", _EXTERNAL, put_bridge, is_standard=False),
    Route("deleteTableBridge", "DELETE", _EXTERNAL, delete_bridge, is_standard=False),
    Route(
        "syncTableBridge",
        "POST",
        _EXTERNAL + "/sync",
        sync_bridge,
        is_standard=False,
        changes=True,
        replay=replay_sync,
    ),
)

"""Wires extensions of the Iceberg REST API: references, metadata pointers, diagnostics, bridges."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.metadata_pointers import PointerMoves
from lakebed.catalog.commits.refs import BranchesAndTags
from lakebed.catalog.commits.rollback import Rollback
from lakebed.catalog.commits.service import Commits
from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventories
from lakebed.catalog.diagnostics.recovery import Recovery
from lakebed.catalog.diagnostics.table_diagnostics import TableDiagnostics
from lakebed.catalog.entries import Entries
from lakebed.catalog.external.bridges.polling import BridgePolling
from lakebed.catalog.external.bridges.service import VAULT_PURPOSE, Bridges
from lakebed.catalog.external.bridges.sync import TableSync
from lakebed.catalog.external.bridges.sync_requests import SyncOnRequest
from lakebed.catalog.external.remote.client import RemoteCatalogs
from lakebed.catalog.locations.claims import LocationClaims
from lakebed.catalog.tables.discovery import TableDiscovery
from lakebed.catalog.tables.files import CatalogFiles
from lakebed.catalog.tables.imports import Imports
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.objects.context import ObjectContext
from lakebed.wire.iceberg.services import TableExtensions


@dataclass(frozen=True, slots=True)
class Extensions:
    """The services of the routes, and background services."""

    tables: TableExtensions
    polling: BridgePolling


def wire_extensions(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    entries: Entries,
    files: CatalogFiles,
    commits: Commits,
    registration: TableRegistration,
    claims: LocationClaims,
    master: MasterKeys,
    remotes: RemoteCatalogs,
) -> Extensions:
    """Wire the extensions."""
    pointers = PointerMoves(object_context.meta, entries, registration)
    diagnostics = TableDiagnostics(object_context, entries, files)
    bridges = Bridges(object_context, authorizer, entries, Vault(master, VAULT_PURPOSE), remotes)
    table_sync = TableSync(object_context, entries, files, registration, bridges, remotes)
    tables = TableExtensions(
        refs=BranchesAndTags(entries, commits),
        pointers=pointers,
        rollback=Rollback(object_context.meta, entries, files, commits, pointers),
        imports=Imports(object_context, authorizer, entries, registration),
        diagnostics=diagnostics,
        recovery=Recovery(object_context, diagnostics, claims),
        inventories=CatalogInventories(object_context, authorizer, catalogs),
        bridges=bridges,
        syncs=SyncOnRequest(files, pointers, bridges, table_sync),
        discovery=TableDiscovery(object_context.meta, authorizer, catalogs, files),
    )
    return Extensions(tables, BridgePolling(object_context, entries, table_sync))

"""Wires what table buckets add to the catalog's contract: branches, pointers, diagnostics, links to other catalogs."""

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
from lakebed.catalog.external.bridges.following import Following
from lakebed.catalog.external.bridges.outcomes import Outcomes
from lakebed.catalog.external.bridges.polling import Polling
from lakebed.catalog.external.bridges.service import PURPOSE, Bridges
from lakebed.catalog.external.bridges.syncing import Syncing
from lakebed.catalog.locations.claims import LocationClaims
from lakebed.catalog.tables.files import TableFiles
from lakebed.catalog.tables.imports import Imports
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.objects.context import ObjectContext
from lakebed.wire.iceberg.services import TableExtensions


@dataclass(frozen=True, slots=True)
class Extensions:
    """The use cases, and what runs beside them."""

    tables: TableExtensions
    polling: Polling


def wire_extensions(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    entries: Entries,
    files: TableFiles,
    commits: Commits,
    registration: TableRegistration,
    claims: LocationClaims,
    master: MasterKeys,
    http: Http,
    hosts: AllowedHosts,
) -> Extensions:
    """The extensions on the services of the catalog. `http` is how other catalogs are spoken to, `hosts` which ones."""
    pointers = PointerMoves(object_context.meta, entries, registration)
    examination = TableDiagnostics(object_context, entries, files)
    bridges = Bridges(object_context, authorizer, entries, Vault(master, PURPOSE), hosts)
    outcomes = Outcomes(object_context, bridges)
    following = Following(object_context, entries, files, registration, bridges, outcomes, http, hosts)
    tables = TableExtensions(
        refs=BranchesAndTags(entries, commits),
        pointers=pointers,
        rollback=Rollback(object_context.meta, entries, files, commits, pointers),
        imports=Imports(object_context, authorizer, entries, registration),
        examination=examination,
        recovery=Recovery(object_context, examination, claims),
        surveys=CatalogInventories(object_context, authorizer, catalogs),
        bridges=bridges,
        syncing=Syncing(object_context.meta, entries, files, pointers, bridges, outcomes, following),
    )
    return Extensions(tables, Polling(object_context, entries, outcomes, following))

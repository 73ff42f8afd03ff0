"""Wires what table buckets add to the catalog's contract: branches, pointers, diagnostics, links to other catalogs."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.objects.context import Facilities
from lakebed.tables.bridges.following import Following
from lakebed.tables.bridges.outcomes import Outcomes
from lakebed.tables.bridges.polling import Polling
from lakebed.tables.bridges.service import PURPOSE, Bridges
from lakebed.tables.bridges.syncing import Syncing
from lakebed.tables.claims import Claims
from lakebed.tables.committing import Commits
from lakebed.tables.diagnostics.examination import Examination
from lakebed.tables.diagnostics.recovery import Recovery
from lakebed.tables.diagnostics.survey import Surveys
from lakebed.tables.entries import Entries
from lakebed.tables.files import TableFiles
from lakebed.tables.gate import Gate
from lakebed.tables.importing import Imports
from lakebed.tables.pointers import PointerMoves
from lakebed.tables.refs import References
from lakebed.tables.registering import Registration
from lakebed.tables.rollback import Rollback
from lakebed.tables.warehouses import Warehouses
from lakebed.wire.iceberg.services import TableExtensions


@dataclass(frozen=True, slots=True)
class Extensions:
    """The use cases, and what runs beside them."""

    tables: TableExtensions
    polling: Polling


def wire_extensions(
    facilities: Facilities,
    gate: Gate,
    warehouses: Warehouses,
    entries: Entries,
    files: TableFiles,
    commits: Commits,
    registration: Registration,
    claims: Claims,
    master: MasterKeys,
    http: Http,
    hosts: AllowedHosts,
) -> Extensions:
    """The extensions on the services of the catalog. `http` is how other catalogs are spoken to, `hosts` which ones."""
    pointers = PointerMoves(facilities.meta, entries, registration)
    examination = Examination(facilities, entries, files)
    bridges = Bridges(facilities, gate, entries, Vault(master, PURPOSE), hosts)
    outcomes = Outcomes(facilities, bridges)
    following = Following(facilities, entries, files, registration, bridges, outcomes, http, hosts)
    tables = TableExtensions(
        refs=References(entries, commits),
        pointers=pointers,
        rollback=Rollback(facilities.meta, entries, files, commits, pointers),
        imports=Imports(facilities, gate, entries, registration),
        examination=examination,
        recovery=Recovery(facilities, examination, claims),
        surveys=Surveys(facilities, gate, warehouses),
        bridges=bridges,
        syncing=Syncing(facilities.meta, entries, files, pointers, bridges, outcomes, following),
    )
    return Extensions(tables, Polling(facilities, entries, outcomes, following))

"""Services behind the routes that table buckets add to the Iceberg specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.tables.bridges.service import Bridges
from lakebed.tables.bridges.syncing import Syncing
from lakebed.tables.diagnostics.examination import Examination
from lakebed.tables.diagnostics.recovery import Recovery
from lakebed.tables.diagnostics.survey import Surveys
from lakebed.tables.importing import Imports
from lakebed.tables.pointers import PointerMoves
from lakebed.tables.refs import References
from lakebed.tables.rollback import Rollback

TABLE_PATH: Final = "/v1/{warehouse}/namespaces/{namespace}/tables/{table}"


@dataclass(frozen=True, slots=True)
class TableExtensions:
    """The use cases behind the extensions."""

    refs: References
    pointers: PointerMoves
    rollback: Rollback
    imports: Imports
    examination: Examination
    recovery: Recovery
    surveys: Surveys
    bridges: Bridges
    syncing: Syncing

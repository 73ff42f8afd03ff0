"""Repairs commit records that follow from others, and directories that are not recorded.

The pointer never moves here: everything else is checked against it.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows as table_rows
from ..access.authorization import Action
from ..commits.commit_log import CommitRecord
from ..events import append_catalog_event
from ..identifiers import Identifier
from ..locations.claims import ChosenBy, EntryLocations, LocationClaim, LocationClaims
from . import rows
from .commit_chain import CommitFinding, RecoveryState
from .table_diagnostics import RecordedState, TableDiagnostics

OPERATION = "recovered"
"""The operation of repaired records: the original one is unknown."""


class Recovered(NamedTuple):
    """A table after a recovery."""

    recorded: RecordedState
    finalized: int
    """The number of missing records that were written."""
    discarded: int
    """The number of records removed, of commits that the table does not have."""
    reclaimed: tuple[str, ...]
    """Directories that are recorded again."""


class Recovery:
    """Recovers tables."""

    def __init__(self, object_context: ObjectContext, examination: TableDiagnostics, claims: LocationClaims) -> None:
        self._f = object_context
        self._claims = claims
        self._examination = examination

    async def recover(self, caller: Caller, catalog_name: str, identifier: Identifier) -> Recovered:
        """Repair what can be derived; a healthy table is unchanged. Raises NoSuchTable, LocationTaken."""
        f = self._f
        now_ms = f.clock.now_ms()
        action = Action.UPDATE_METADATA_LOCATION
        authorized = await self._examination.authorize(caller, catalog_name, identifier, action)
        before = await self._examination.read(f.meta, catalog_name, authorized)
        metadata, parsed = await self._examination.metadata(before)
        claim: LocationClaim | None = None
        if metadata.missing_directories and parsed is not None:
            locations = EntryLocations(
                before.catalog, None, before.entry.kind, before.entry.id, parsed.location, parsed.properties
            )
            # The commit that wrote the current metadata file was validated. Where clients can change that file, its
            # directories are theirs.
            is_trusted = await self._claims.trusts(locations, before.entry.metadata_at)
            claim = await self._claims.prepare(caller, locations, ChosenBy.CATALOG if is_trusted else ChosenBy.CLIENT)

        async def work(tx: Transaction) -> Recovered:
            found = await self._examination.read(tx, catalog_name, authorized)
            finalized = discarded = 0
            for finding in found.line.findings:
                if finding.recovery_state is RecoveryState.FINALIZATION_REQUIRED:
                    await tx.run(table_rows.INSERT_COMMIT, *_record(found.entry.id, finding, now_ms))
                    finalized += 1
                elif finding.recovery_state is RecoveryState.STAGED_BEFORE_TABLE_UPDATE:
                    discarded += await tx.run(rows.DELETE_COMMIT, found.entry.id, finding.generation)
            reclaimed: tuple[str, ...] = ()
            # The file's directories are valid only for the version that it was read at.
            if claim is not None and found.entry.version_token == before.entry.version_token:
                await self._claims.take(tx, claim)
                reclaimed = metadata.missing_directories
            if not (finalized or discarded or reclaimed):
                return Recovered(found, 0, 0, ())
            await append_catalog_event(
                f.outbox,
                tx,
                "TableRecovered",
                caller,
                now_ms,
                catalog_name,
                identifier.namespace,
                found.entry,
                operation=OPERATION,
                facts={
                    "finalized": str(finalized),
                    "discarded": str(discarded),
                    "reclaimed": ", ".join(reclaimed),
                },
            )
            after = await self._examination.read(tx, catalog_name, authorized)
            return Recovered(after, finalized, discarded, reclaimed)

        return await f.meta.transact(work)


def _record(entry_id: str, finding: CommitFinding, now_ms: int) -> CommitRecord:
    return CommitRecord(
        entry=entry_id,
        generation=finding.generation,
        commit_id=finding.new_version_token,
        operation=OPERATION,
        writer="",
        previous_at=finding.previous_metadata_location,
        metadata_at=finding.new_metadata_location,
        expected_token=finding.expected_version_token,
        version_token=finding.new_version_token,
        request_digest="",
        requirements=b"[]",
        committed_ms=now_ms,
    )

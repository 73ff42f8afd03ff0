"""The metadata pointer of a table: get, move and roll back."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.model import Entry, EntryKind
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import Location, StrictDocument, Word, read_strict_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..loading import commit_document, replay_commit
from ..services import IcebergServices
from .tables import TABLE_PATH


class MovePointer(StrictDocument):
    """The body of a move or rollback."""

    metadata_location: Location
    version_token: Word
    commit_id: Word = ""
    idempotency_key: Word = ""


async def get_metadata_location(services: IcebergServices, request: JsonRequest) -> Response:
    """The metadata location of a table, with the version token for the next move."""
    known = await services.entries.get(
        request.caller, request.catalog, request.table, EntryKind.TABLE, Action.GET_METADATA_LOCATION
    )
    return ok(_pointer(known.entry))


async def update_metadata_location(services: IcebergServices, request: JsonRequest) -> Response:
    """Move the pointer to another metadata file."""
    document = await read_strict_document(request, MovePointer)
    moved = await services.extensions.pointers.move(
        request.mutation,
        request.catalog,
        request.table,
        document.metadata_location,
        expected_token=document.version_token,
        commit_id=document.commit_id or document.idempotency_key,
    )
    return ok(_pointer(moved.entry))


async def roll_back_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Roll back to the state of an earlier metadata file."""
    document = await read_strict_document(request, MovePointer)
    rolled = await services.extensions.rollback.roll_back(
        request.mutation,
        request.catalog,
        request.table,
        document.metadata_location,
        expected_token=document.version_token,
        commit_id=document.commit_id or document.idempotency_key,
    )
    committed = rolled.committed
    return ok(
        {**commit_document(committed.entry, committed.metadata, document.commit_id), "rollback-mode": rolled.mode}
    )


async def replay_move(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated move, with the current pointer."""
    return ok(_pointer((await services.entries.by_id(entry_id)).entry))


def _pointer(entry: Entry) -> dict[str, Any]:
    return {
        "metadata-location": entry.metadata_at,
        "version-token": entry.version_token,
        "generation": entry.generation,
        "warehouse-location": entry.location,
    }


_PATH = TABLE_PATH + "/metadata-location"

ROUTES = (
    Route("getTableMetadataLocation", "GET", _PATH, get_metadata_location, is_standard=False),
    Route(
        "updateTableMetadataLocation",
        "PUT",
        _PATH,
        update_metadata_location,
        is_standard=False,
        changes=True,
        replay=replay_move,
    ),
    Route(
        "rollBackTable",
        "POST",
        TABLE_PATH + "/catalog/rollback",
        roll_back_table,
        is_standard=False,
        changes=True,
        replay=replay_commit,
    ),
)

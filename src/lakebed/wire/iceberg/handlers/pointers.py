"""The pointer to a table's metadata file: read it, move it, take it back."""

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
    """The body of a move, forth or back."""

    metadata_location: Location
    version_token: Word
    commit_id: Word = ""
    idempotency_key: Word = ""


async def get_metadata_location(services: IcebergServices, request: JsonRequest) -> Response:
    """Where a table's metadata file is, and the version that a move names."""
    found = await services.entries.get(
        request.caller, request.catalog, request.table, EntryKind.TABLE, Action.GET_METADATA_LOCATION
    )
    entry = found.live
    assert entry is not None  # noqa: S101  # `get` has raised otherwise
    return ok(_pointer(entry))


async def update_metadata_location(services: IcebergServices, request: JsonRequest) -> Response:
    """Make another metadata file the current one."""
    asked = await read_strict_document(request, MovePointer)
    moved = await services.extensions.pointers.move(
        request.mutation,
        request.catalog,
        request.table,
        asked.metadata_location,
        expected_token=asked.version_token,
        commit_id=asked.commit_id or asked.idempotency_key,
    )
    return ok(_pointer(moved.entry))


async def roll_back_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Make an earlier metadata file what the table says again."""
    asked = await read_strict_document(request, MovePointer)
    rolled = await services.extensions.rollback.roll_back(
        request.mutation,
        request.catalog,
        request.table,
        asked.metadata_location,
        expected_token=asked.version_token,
        commit_id=asked.commit_id or asked.idempotency_key,
    )
    committed = rolled.committed
    return ok({**commit_document(committed.entry, committed.metadata, asked.commit_id), "rollback-mode": rolled.mode})


async def pointer_shown_again(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The answer to a move that was answered before: the pointer as it is now."""
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
        replay=pointer_shown_again,
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

"""Dropped tables and views: list, restore, purge; and protection from dropping."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import Entry, EntryKind
from lakebed.catalog.tables.drops import DroppedEntry
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import StrictDocument, read_strict_document
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok, page_response
from lakebed.wire.json.routing import Handler, Route

from ..services import IcebergServices
from .tables import TABLE_PATH


class DroppedName(StrictDocument):
    """A dropped table or view by name."""

    namespace: list[str]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The name, checked. Raises InvalidName."""
        return check_identifier(self.namespace, self.name)


class PurgeName(DroppedName):
    """The body of purgeDropped; `files` deletes the files too."""

    files: bool = False


class Protection(StrictDocument):
    """The body of a change of protection."""

    protected: bool


async def list_dropped(services: IcebergServices, request: JsonRequest) -> Response:
    """List the dropped tables and views of a catalog that can be restored."""
    page = read_page(request.http, f"dropped {request.catalog}")
    found = await services.dropping.dropped(request.caller, request.catalog, after=page.after, limit=page.limit)
    last = found.items[-1].entry.id if found.truncated else None
    return page_response(page, {"dropped": [_dropped_document(one) for one in found.items]}, last)


async def restore_dropped(services: IcebergServices, request: JsonRequest) -> Response:
    """Restore a dropped table or view."""
    identifier = (await read_strict_document(request, DroppedName)).identifier
    restored = await services.dropping.restore(request.mutation, request.catalog, identifier)
    return ok(_entry_document(identifier, restored))


async def purge_dropped(services: IcebergServices, request: JsonRequest) -> Response:
    """Purge a dropped table or view before its retention ends."""
    document = await read_strict_document(request, PurgeName)
    await services.dropping.purge_now(request.mutation, request.catalog, document.identifier, files=document.files)
    return no_content()


def _get_protection(kind: EntryKind) -> Handler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest) -> Response:
        identifier = request.table if kind is EntryKind.TABLE else request.view
        known = await services.entries.get(request.caller, request.catalog, identifier, kind, Action.GET_TABLE)
        return ok(_entry_document(identifier, known.entry))

    return handle


def _protect(kind: EntryKind) -> Handler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest) -> Response:
        identifier = request.table if kind is EntryKind.TABLE else request.view
        document = await read_strict_document(request, Protection)
        entry = await services.dropping.protect(
            request.mutation, request.catalog, identifier, kind, protected=document.protected
        )
        return ok(_entry_document(identifier, entry))

    return handle


async def replay_named(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated request, with the current table or view."""
    found = await services.entries.by_id(entry_id)
    return ok(_entry_document(found.identifier, found.entry))


def _entry_document(identifier: Identifier, entry: Entry) -> dict[str, Any]:
    return {
        "namespace": identifier.namespace,
        "name": identifier.name,
        "kind": entry.kind,
        "protected": entry.protected,
        "metadata-location": entry.metadata_at,
        "version-token": entry.version_token,
        "generation": entry.generation,
    }


def _dropped_document(dropped: DroppedEntry) -> dict[str, Any]:
    entry = dropped.entry
    return {
        "namespace": dropped.namespace,
        "name": entry.name,
        "kind": entry.kind,
        "uuid": entry.uuid,
        "metadata-location": entry.metadata_at,
        "dropped-at-ms": entry.dropped_ms,
        "restorable-until-ms": entry.expires_ms,
        "purge-requested": entry.purge,
    }


_DROPPED = "/v1/{warehouse}/dropped"
_TABLE = TABLE_PATH + "/protection"
_VIEW = "/v1/{warehouse}/namespaces/{namespace}/views/{view}/protection"

ROUTES = (
    Route("listDropped", "GET", _DROPPED, list_dropped, is_standard=False),
    Route(
        "restoreDropped",
        "POST",
        _DROPPED + "/restore",
        restore_dropped,
        is_standard=False,
        changes=True,
        replay=replay_named,
    ),
    Route("purgeDropped", "POST", _DROPPED + "/purge", purge_dropped, is_standard=False, changes=True),
    Route("getTableProtection", "GET", _TABLE, _get_protection(EntryKind.TABLE), is_standard=False),
    Route(
        "protectTable", "PUT", _TABLE, _protect(EntryKind.TABLE), is_standard=False, changes=True, replay=replay_named
    ),
    Route("getViewProtection", "GET", _VIEW, _get_protection(EntryKind.VIEW), is_standard=False),
    Route("protectView", "PUT", _VIEW, _protect(EntryKind.VIEW), is_standard=False, changes=True, replay=replay_named),
)

"""Branches and tags: list, set, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from lakebed.catalog.commits.service import CommitOptions
from lakebed.catalog.identifiers import display
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import StrictDocument, Word, read_strict_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..loading import commit_response, replay_commit
from ..services import IcebergServices
from .tables import TABLE_PATH

_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_AtLeastOne = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class _CommitFields(StrictDocument, kw_only=True):
    commit_id: Word = ""
    idempotency_key: Word = ""
    writer: Word = ""

    @property
    def options(self) -> CommitOptions:
        """The options of the commit."""
        return CommitOptions(self.commit_id or self.idempotency_key, writer=self.writer)


class SetReference(_CommitFields, kw_only=True):
    """The body of a change of a branch or tag."""

    snapshot_id: _Long
    type: Literal["branch", "tag"]
    expected_snapshot_id: _Long | UnsetType | None = UNSET
    min_snapshots_to_keep: _AtLeastOne | None = None
    max_snapshot_age_ms: _AtLeastOne | None = None
    max_ref_age_ms: _AtLeastOne | None = None


class RemoveReference(_CommitFields, kw_only=True):
    """The optional body of a deletion of a branch or tag."""

    force: bool = False
    expected_snapshot_id: _Long | UnsetType | None = UNSET


async def list_refs(services: IcebergServices, request: JsonRequest) -> Response:
    """List the branches and tags of a table."""
    found = await services.extensions.refs.list(request.caller, request.catalog, request.table)
    loaded = found.loaded
    refs: dict[str, Any] = {
        "table-bucket": loaded.catalog.name,
        "namespace": display(loaded.namespace.levels),
        "table": loaded.entry.name,
        "current-metadata-location": loaded.entry.metadata_at,
        "current-snapshot-id": found.metadata.current_snapshot_id,
        "protected-ref-count": len(found.protected),
        "user-defined-ref-count": len(found.user_defined),
        "refs": {name: msgspec.Raw(reference.written) for name, reference in found.refs.items()},
    }
    return ok(refs)


async def set_ref(services: IcebergServices, request: JsonRequest) -> Response:
    """Create or change a branch or tag."""
    document = await read_strict_document(request, SetReference)
    reference: dict[str, int | str | None] = {
        "snapshot-id": document.snapshot_id,
        "type": document.type,
        "min-snapshots-to-keep": document.min_snapshots_to_keep,
        "max-snapshot-age-ms": document.max_snapshot_age_ms,
        "max-ref-age-ms": document.max_ref_age_ms,
    }
    committed = await services.extensions.refs.set(
        request.mutation,
        request.catalog,
        request.table,
        request.names["ref"],
        reference,
        document.expected_snapshot_id,
        document.options,
    )
    return commit_response(committed.entry, committed.metadata, document.commit_id)


async def delete_ref(services: IcebergServices, request: JsonRequest) -> Response:
    """Delete a branch or tag."""
    document = await read_strict_document(request, RemoveReference)
    committed = await services.extensions.refs.remove(
        request.mutation,
        request.catalog,
        request.table,
        request.names["ref"],
        document.expected_snapshot_id,
        document.options,
        force=document.force,
    )
    return commit_response(committed.entry, committed.metadata, document.commit_id)


_ALL = TABLE_PATH + "/refs"
_ONE = _ALL + "/{ref}"

ROUTES = (
    Route("listTableRefs", "GET", _ALL, list_refs, is_standard=False),
    Route("setTableRef", "PUT", _ONE, set_ref, is_standard=False, changes=True, replay=replay_commit),
    Route("deleteTableRef", "DELETE", _ONE, delete_ref, is_standard=False, changes=True, replay=replay_commit),
)

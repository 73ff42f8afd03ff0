"""Multi-table transactions."""

from __future__ import annotations

import msgspec

from lakebed.catalog.commits.service import TableChange, read_change
from lakebed.core.errors import InvalidInput
from lakebed.core.json.parsing import parse_body
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest, parse_document
from lakebed.wire.json.responses import no_content
from lakebed.wire.json.routing import Route

from ..services import IcebergServices
from .tables import COMMITTING, IdentifierDocument

MAX_TABLES = 1024
"""Tables per transaction."""


class TableChangeDocument(msgspec.Struct):
    """The changes of one table in a transaction."""

    identifier: IdentifierDocument
    requirements: msgspec.Raw
    updates: msgspec.Raw


class TransactionDocument(msgspec.Struct, rename="kebab"):
    """The body of commitTransaction."""

    table_changes: list[TableChangeDocument]


def read_transaction(body: bytes) -> TransactionDocument:
    """Parse the body of commitTransaction. Raises InvalidInput."""
    document = parse_document(body, TransactionDocument)
    if not 1 <= len(document.table_changes) <= MAX_TABLES:
        raise InvalidInput(f"a transaction must change 1 to {MAX_TABLES} tables", argument="table-changes")
    return document


def _read_changes(body: bytes) -> list[TableChange]:
    return [
        read_change(one.identifier.identifier, bytes(one.requirements), bytes(one.updates))
        for one in read_transaction(body).table_changes
    ]


async def commit_transaction(services: IcebergServices, request: JsonRequest) -> Response:
    """Commit to all tables of a transaction, or to none."""
    changes = await parse_body(_read_changes, request.body)
    await services.commits.commit_all(request.mutation, request.catalog, changes)
    return no_content()


ROUTES = (
    Route(
        "commitTransaction",
        "POST",
        "/v1/{warehouse}/transactions/commit",
        commit_transaction,
        changes=True,
        is_large=True,
        actions=COMMITTING,
    ),
)

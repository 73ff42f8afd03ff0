"""Files that arrived and are to be added to tables: for the job that adds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from .connection import ServerConnection
from .names import TableRef

_PATH: Final = "/lakebed/v1/arrivals"


class PendingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that arrived."""

    event: int
    """The number of the event that told of it."""
    deployment: str | None = None
    """The deployment that the event is of; None from servers of earlier versions."""
    source: str
    """`<bucket>/<key>`."""
    version: str = ""
    etag: str = ""
    """What it was then."""
    bytes: int = 0
    format: str = ""


class _List(msgspec.Struct, frozen=True):
    arrivals: list[PendingFile]


class PendingFiles:
    """The arrivals of a server."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self, table: TableRef, *, after: int = 0, limit: int = 100) -> Sequence[PendingFile]:
        """What is to be added to a table, in the order of its events."""
        document = {**_named(table), "after": after, "limit": limit}
        return self._connection.read(_List, "POST", f"{_PATH}/list", document=document, repeatable=True).arrivals

    def take(self, table: TableRef, events: Sequence[int]) -> None:
        """Forget files that were added, or never will be."""
        document = {**_named(table), "events": [*events]}
        self._connection.call("POST", f"{_PATH}/take", document=document, repeatable=True)


def _named(table: TableRef) -> dict[str, object]:
    return {"warehouse": table.warehouse, "namespace": list(table.namespace), "table": table.table}

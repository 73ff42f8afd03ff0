"""Discovery of existing tables in the directories of a catalog, to register them."""

from __future__ import annotations

from lakebed.catalog.tables.discovery import MAX_TABLES
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..services import IcebergServices


async def discover_tables(services: IcebergServices, request: JsonRequest) -> Response:
    """A page of the tables in a directory, by their metadata files."""
    query = request.http.query
    location = query.get("location", "")
    if not location:
        raise InvalidInput("location is missing", argument="location")
    found = await services.extensions.discovery.discover(
        request.caller,
        request.catalog,
        location,
        after=query.get("after", ""),
        limit=_limit(query.get("limit")),
    )
    tables = [
        {"location": table.location, "metadata-location": table.metadata_at or None, "problem": table.problem or None}
        for table in found.tables
    ]
    return ok({"tables": tables, "after": found.after})


def _limit(text: str | None) -> int:
    if text is None:
        return MAX_TABLES
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_TABLES):
        raise InvalidInput(f"limit must be a number from 1 to {MAX_TABLES}", argument="limit")
    return int(text)


ROUTES = (Route("discoverTables", "GET", "/v1/{warehouse}/discovery", discover_tables, is_standard=False),)

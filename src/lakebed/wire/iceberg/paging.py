"""Pages of lists: all of it unless the client asks for pages."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.http.message import Request

MAX_PAGE: Final = 1000
"""Most names of a page; a client that asks for more gets this many."""

ALL: Final = 1_000_000_000


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: behind a name of one listing."""

    listing: str
    after: str


class Page(NamedTuple):
    """Which part of a list is asked for."""

    listing: str
    after: str
    limit: int

    def next_token(self, last: str, *, truncated: bool) -> str | None:
        """The token of the page behind `last`; None at the end."""
        return _tokens.encode(Position(self.listing, last)) if truncated else None


_tokens = PageTokens("catalog", Position)


def read_page(request: Request, listing: str) -> Page:
    """The page that the query asks for. Raises InvalidInput.

    Without a token the answer is everything, as the contract says, even where a size is given: a client that does not
    know of pages would take the first one for all. An empty token asks for the first page.
    """
    query = request.query
    size = query.get("pageSize")
    limit = MAX_PAGE
    if size is not None:
        if not (size.isascii() and size.isdigit()) or int(size) < 1:
            raise InvalidInput("pageSize is a whole number from 1", argument="pageSize", value=size)
        limit = min(int(size), MAX_PAGE)
    for name in ("pageSize", "pageToken"):
        if sum(pair.partition("=")[0] == name for pair in request.raw_query.split("&")) > 1:
            raise InvalidInput(f"{name} is given more than once", argument=name)
    token = query.get("pageToken")
    if token is None:
        return Page(listing, "", ALL)
    if not token:
        return Page(listing, "", limit)
    position = _tokens.decode(token)
    if position.listing != listing:
        raise InvalidInput("the page token is of another list", argument="pageToken")
    return Page(listing, position.after, limit)

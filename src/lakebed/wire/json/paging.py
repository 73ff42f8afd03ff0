"""Pages of lists: the whole list unless the client sends a page size or a page token."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.http.message import Request

MAX_PAGE: Final = 1000
"""Most names of a page; larger page sizes are reduced to it."""

ALL: Final = 1_000_000_000

_MAX_DIGITS: Final = 19


class ListPosition(msgspec.Struct, frozen=True, array_like=True):
    """The position in a page token: after a name of one listing."""

    listing: str
    after: str


class ListPage(NamedTuple):
    """The requested page of a listing."""

    listing: str
    after: str
    limit: int

    def next_token(self, last: str | None) -> str | None:
        """The token of the page after `last`, the last entry if more follow; None without one."""
        return None if last is None else _tokens.encode(ListPosition(self.listing, last))


_tokens = PageTokens("catalog", ListPosition)


class PageParameters(NamedTuple):
    """The paging parameters of a query, unparsed."""

    token: str | None
    size: str | None


def page_parameters(request: Request) -> PageParameters:
    """Read both paging parameters in either spelling: `pageToken` or `page-token`, `pageSize` or `page-size`.

    Raises InvalidInput for a repeated parameter.
    """
    names = [pair.partition("=")[0] for pair in request.raw_query.split("&")]
    values: list[str | None] = []
    for spellings in (("pageToken", "page-token"), ("pageSize", "page-size")):
        given = [name for name in names if name in spellings]
        if len(given) > 1:
            raise InvalidInput(f"{given[1]} is given more than once", argument=given[1])
        values.append(request.query[given[0]] if given else None)
    return PageParameters(*values)


def read_page(request: Request, listing: str) -> ListPage:
    """The page that the query requests. Raises InvalidInput.

    Without both parameters, the page is the whole list. A size without a token, or an empty token, requests the first
    page. For a size without a token the Iceberg specification requires the whole list; Polaris and other servers return
    a page, and clients that send a size follow `next-page-token`.
    """
    stated = page_parameters(request)
    limit = MAX_PAGE
    if stated.size is not None:
        is_number = stated.size.isascii() and stated.size.isdigit() and len(stated.size) <= _MAX_DIGITS
        if not is_number or int(stated.size) < 1:
            raise InvalidInput("pageSize must be a positive integer", argument="pageSize", value=stated.size[:80])
        limit = min(int(stated.size), MAX_PAGE)
    if stated.token is None and stated.size is None:
        return ListPage(listing, "", ALL)
    if not stated.token:
        return ListPage(listing, "", limit)
    position = _tokens.decode(stated.token)
    if position.listing != listing:
        raise InvalidInput(
            "page token belongs to a different listing; begin again without a token", argument="pageToken"
        )
    return ListPage(listing, position.after, limit)

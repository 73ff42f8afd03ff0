"""Paging of lists in the admin API."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.http.message import Request

from .queries import DEFAULT_PAGE, MAX_PAGE, number_parameter

P = TypeVar("P")

PARAMETERS = ("page-token", "page-size")
"""The paging parameters."""


class CursorPage(NamedTuple, Generic[P]):
    """The requested page of a list."""

    after: P | None
    """None for the first page."""
    limit: int


class CursorPages(Generic[P]):
    """Paging of one list. A page token contains the list's name, the filters of the request, and the position."""

    def __init__(self, name: str, position: type[P]) -> None:
        self._tokens: PageTokens[tuple[str, P]] = PageTokens(name, tuple[str, position])  # type: ignore[valid-type]  # a type variable at runtime

    def read(self, request: Request, filters: str) -> CursorPage[P]:
        """The requested page; `filters` are the other parameters of the query. Raises InvalidInput."""
        limit = number_parameter(request, "page-size", DEFAULT_PAGE, least=1, most=MAX_PAGE)
        token = request.query.get("page-token", "")
        if not token:
            return CursorPage(None, limit)
        token_filters, after = self._tokens.decode(token)
        if token_filters != filters:
            raise InvalidInput("page token belongs to a different listing", argument="page-token")
        return CursorPage(after, limit)

    def token(self, filters: str, last: P) -> str:
        """The token of the page after `last`."""
        return self._tokens.encode((filters, last))

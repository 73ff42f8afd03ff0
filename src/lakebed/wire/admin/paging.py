"""Paging of the administration API's lists."""

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
    """The part of a list that a request asks for."""

    after: P | None
    """None for the first page."""
    limit: int


class CursorPages(Generic[P]):
    """Paging of one list. A token holds the list and the other parameters of the request."""

    def __init__(self, name: str, position: type[P]) -> None:
        self._tokens: PageTokens[tuple[str, P]] = PageTokens(name, tuple[str, position])  # type: ignore[valid-type]  # a type made of another

    def read(self, request: Request, asked: str) -> CursorPage[P]:
        """The page that a query asks for; `asked` are its other parameters. Raises InvalidInput."""
        limit = number_parameter(request, "page-size", DEFAULT_PAGE, least=1, most=MAX_PAGE)
        token = request.query.get("page-token", "")
        if not token:
            return CursorPage(None, limit)
        of, after = self._tokens.decode(token)
        if of != asked:
            raise InvalidInput("page token belongs to a different listing", argument="page-token")
        return CursorPage(after, limit)

    def token(self, asked: str, last: P) -> str:
        """The token of the page behind `last`."""
        return self._tokens.encode((asked, last))

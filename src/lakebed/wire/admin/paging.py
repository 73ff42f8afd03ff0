"""Pages of the API's lists."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.http.message import Request

from .queries import DEFAULT_PAGE, MAX_PAGE, whole_number

P = TypeVar("P")

PARAMETERS = ("page-token", "page-size")
"""What a query asks for pages with."""


class CursorPage(NamedTuple, Generic[P]):
    """Which part of a list is asked for."""

    after: P | None
    """None for the first page."""
    limit: int


class CursorPages(Generic[P]):
    """Pages of one list. A token says which list it is of, and what of it was asked for."""

    def __init__(self, name: str, position: type[P]) -> None:
        self._tokens: PageTokens[tuple[str, P]] = PageTokens(name, tuple[str, position])  # type: ignore[valid-type]  # a type made of another

    def read(self, request: Request, asked: str) -> CursorPage[P]:
        """The page that a query asks for; `asked` is what else it says. Raises InvalidInput."""
        limit = whole_number(request, "page-size", DEFAULT_PAGE, least=1, most=MAX_PAGE)
        token = request.query.get("page-token", "")
        if not token:
            return CursorPage(None, limit)
        of, after = self._tokens.decode(token)
        if of != asked:
            raise InvalidInput("the page token is of another list; begin again without one", argument="page-token")
        return CursorPage(after, limit)

    def token(self, asked: str, last: P) -> str:
        """The token of the page behind `last`."""
        return self._tokens.encode((asked, last))

"""Paging of lists in the admin API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.http.message import Request, Response
from lakebed.wire.json.responses import ok

from .queries import DEFAULT_PAGE, MAX_PAGE, number_parameter

P = TypeVar("P")
T = TypeVar("T")

PARAMETERS = ("page-token", "page-size")
"""The paging parameters."""


class CursorPage(NamedTuple, Generic[P]):
    """The requested page of a list."""

    after: P | None
    """None for the first page."""
    limit: int
    token: Callable[[P], str]
    """The token of the page after a position."""

    def cut(self, found: Sequence[T], position: Callable[[T], P]) -> tuple[Sequence[T], P | None]:
        """The entries of the page, of up to `limit + 1`, and the position of the last one if more follow."""
        items = found[: self.limit]
        return items, position(items[-1]) if len(found) > len(items) else None

    def response(self, document: dict[str, object], last: P | None) -> Response:
        """The document, with a token for the next page unless `last` is None."""
        return ok(document if last is None else document | {"next-page-token": self.token(last)})


class CursorPages(Generic[P]):
    """Paging of one list. A page token contains the list's name, the filters of the request, and the position."""

    def __init__(self, name: str, position: type[P]) -> None:
        self._tokens: PageTokens[tuple[str, P]] = PageTokens(name, tuple[str, position])  # type: ignore[valid-type]  # a type variable at runtime

    def read(self, request: Request, filters: str) -> CursorPage[P]:
        """The requested page; `filters` are the other parameters of the query. Raises InvalidInput."""
        token_after = partial(self._token, filters)
        limit = number_parameter(request, "page-size", DEFAULT_PAGE, least=1, most=MAX_PAGE)
        token = request.query.get("page-token", "")
        if not token:
            return CursorPage(None, limit, token_after)
        token_filters, after = self._tokens.decode(token)
        if token_filters != filters:
            raise InvalidInput("page token belongs to a different listing", argument="page-token")
        return CursorPage(after, limit, token_after)

    def _token(self, filters: str, last: P) -> str:
        return self._tokens.encode((filters, last))

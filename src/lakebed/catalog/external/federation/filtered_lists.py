"""Pages of lists of an external catalog, reduced to the names that the caller may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from lakebed.core.errors import AccessDenied

T = TypeVar("T", bound=str | tuple[str, ...])


class RemotePaging(NamedTuple):
    """The page that a client requests, in the external catalog's terms: page tokens are its own."""

    token: str | None = None
    size: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """Its query parameters."""
        parameters = {"pageToken": self.token, "pageSize": self.size}
        return {name: value for name, value in parameters.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RemotePage(Generic[T]):
    """One page of names, and the external catalog's token for the next."""

    items: Sequence[T]
    next_token: str | None


LoadPage: TypeAlias = Callable[[RemotePaging], Awaitable[RemotePage[T]]]


@dataclass(frozen=True, slots=True)
class FilteredList(Generic[T]):
    """A list of an external catalog for one caller."""

    authorize: Callable[[], Awaitable[None]]
    """Raises AccessDenied for a caller without permission to list."""
    granted: Callable[[], Awaitable[Collection[T] | None]]
    """The names with grants of the caller's; None without any."""
    load: LoadPage[T]
    visible: Callable[[Sequence[T]], Awaitable[Iterable[T]]]
    """The names that a decision point shows."""

    async def page(self, paging: RemotePaging) -> RemotePage[T]:
        """A page; for a caller with grants on some names only, one page of those. Raises AccessDenied."""
        try:
            await self.authorize()
        except AccessDenied:
            granted = await self.granted()
            if granted is None:
                raise
            names = sorted([name for name in await self._all() if name in granted])
            return RemotePage([*await self.visible(names)], None)
        while True:
            page = await self.load(paging)
            visible = [*await self.visible(page.items)]
            # The pages are the external catalog's. Empty ones are skipped: some clients take one for the last.
            if visible or not page.next_token or page.next_token == paging.token:
                return replace(page, items=visible)
            paging = paging._replace(token=page.next_token)

    async def _all(self) -> list[T]:
        names: list[T] = []
        paging = RemotePaging()
        while True:
            page = await self.load(paging)
            names += page.items
            if not page.next_token or page.next_token == paging.token:
                return names
            paging = RemotePaging(page.next_token)

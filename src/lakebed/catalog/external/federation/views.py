"""Views of the catalog behind this one: made, shown, replaced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AlreadyExists, CommitConflict, NoSuchNamespace, NoSuchView
from lakebed.core.json.parsing import parse_body
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, parsed
from ..remote.failures import Meant
from .asking import Asking
from .connections import Backed
from .documents import Fields, Registration, read_change, read_named, shown_table, written
from .entries import RemoteEntries, kept, missing
from .passing import Passing

_VIEW = "/v1/{prefix}/namespaces/{namespace}/views"


class RemoteViews:
    """The use cases of views. All of them raise what the other side refuses with."""

    def __init__(self, entries: RemoteEntries, asking: Asking, passing: Passing) -> None:
        self._entries = entries
        self._asking = asking
        self._passing = passing

    async def create(self, mutation: Mutation, backed: Backed, levels: Sequence[str], body: bytes) -> Fields:
        """Make a view. Raises AlreadyExists, NoSuchNamespace."""
        name, _, document = await parse_body(read_named, body)
        identifier = check_identifier(levels, name)
        await self._asking.check(mutation.caller, backed, Action.CREATE_TABLE, identifier, EntryKind.VIEW)
        await self._passing.check_served(backed, f"POST {_VIEW}")
        path = ("namespaces", await backed.remote.namespace(identifier.namespace), "views")
        answer = await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", path, body=document),
            Meant(NoSuchNamespace, AlreadyExists),
            self._entries.recorder(mutation.caller, backed, identifier, EntryKind.VIEW, "Created"),
            kept(identifier),
        )
        return _shown(backed, answer, changes=True)

    async def load(self, caller: Caller, backed: Backed, identifier: Identifier) -> Fields:
        """A view with its metadata. Raises NoSuchView."""
        await self._asking.check(caller, backed, Action.GET_METADATA_LOCATION, identifier, EntryKind.VIEW)
        return await self.load_again(backed, identifier)

    async def load_again(self, backed: Backed, identifier: Identifier) -> Fields:
        """A view for who was let through before. Raises NoSuchView."""
        await self._passing.check_served(backed, f"GET {_VIEW}/{{view}}")
        path = await self._entries.path(backed, identifier, EntryKind.VIEW)
        return _shown(backed, await self._passing.read(backed, RemoteRequest("GET", path), missing(EntryKind.VIEW)))

    async def replace(self, mutation: Mutation, backed: Backed, identifier: Identifier, body: bytes) -> Fields:
        """Commit to a view. Raises CommitConflict, NoSuchView."""
        change = await parse_body(partial(read_change, identifier=identifier), body)
        await self._asking.check(mutation.caller, backed, Action.UPDATE_METADATA_LOCATION, identifier, EntryKind.VIEW)
        await self._passing.check_served(backed, f"POST {_VIEW}/{{view}}")
        answer = await self._passing.change(
            mutation,
            backed,
            RemoteRequest(
                "POST", await self._entries.path(backed, identifier, EntryKind.VIEW), body=written(change.document)
            ),
            Meant(NoSuchView, CommitConflict),
            self._entries.recorder(mutation.caller, backed, identifier, EntryKind.VIEW, "Committed"),
            kept(identifier),
        )
        return _shown(backed, answer, changes=True)

    async def register(self, mutation: Mutation, backed: Backed, levels: Sequence[str], asked: Registration) -> Fields:
        """Give a view's metadata file a name. Raises AlreadyExists."""
        answer = await self._entries.register(mutation, backed, levels, asked, EntryKind.VIEW)
        return _shown(backed, answer, changes=True)


def _shown(backed: Backed, answer: HttpResponse, *, changes: bool = False) -> Fields:
    fields = parsed(answer, Fields, backed.remote.host, changes=changes)
    return shown_table(fields, with_keys=False, credentials_path="")

"""Tables and views of the catalog behind this one: what both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lakebed.catalog import rows as own
from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.access.granted_listing import GrantedEntries
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import Identifier, Levels, check_identifier, check_namespace, levels_of, path_of
from lakebed.catalog.model import EntryKind
from lakebed.catalog.rows import namespace_from
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    LakebedError,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
)
from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, parsed
from ..remote.failures import Meant
from .asking import Asking
from .connections import Backed
from .documents import Name, Registration, Rename, Told, written
from .facades import forget_entry, rename_entry
from .namespaces import MISSING, Paging
from .passing import Passing, told_entry

_HELD_AT_ONCE: Final = 1_000

_SHOWN_AGAIN: Final = "remote\n"
"""How begins what keys keep of changes that are answered with a table or view: it is asked for again."""

_MISSING: Final[dict[EntryKind, type[LakebedError]]] = {EntryKind.TABLE: NoSuchTable, EntryKind.VIEW: NoSuchView}


class NameList(NamedTuple):
    """Names of a list, and the other side's token for more."""

    namespace: Levels
    names: list[str]
    next_token: str | None


class _Listed(msgspec.Struct, rename="kebab"):
    identifiers: list[Name] = []
    next_page_token: str | None = None


class RemoteEntries:
    """What is done to tables and views alike. All of it raises what the other side refuses with."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, asking: Asking, passing: Passing) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._asking = asking
        self._passing = passing

    async def list(
        self, caller: Caller, backed: Backed, levels: Sequence[str], kind: EntryKind, paging: Paging
    ) -> NameList:
        """The tables or views of a namespace; only those that are held of who holds some and not all."""
        name = check_namespace(levels)
        try:
            await self._authorizer.check(caller, backed.catalog, Action.LIST_TABLES, namespace=name, kind=kind)
        except AccessDenied:
            held = await self._held(caller, backed, name, kind)
            if held is None:
                raise
            there = sorted(one for one in await self._every(backed, name, kind) if one in held)
            return NameList(name, [*await self._authorizer.visible_names(caller, backed.catalog, name, there)], None)
        while True:
            page = await self._page(backed, name, kind, paging)
            shown = [*await self._authorizer.visible_names(caller, backed.catalog, name, page.names)]
            # Pages are the other side's. One that nothing is left of is not shown: some clients take it for the last.
            if shown or not page.next_token or page.next_token == paging.token:
                return page._replace(names=shown)
            paging = paging._replace(token=page.next_token)

    async def _held(self, caller: Caller, backed: Backed, levels: Levels, kind: EntryKind) -> frozenset[str] | None:
        row = await self._meta.row(own.NAMESPACE, backed.catalog_id, path_of(levels))
        if caller.principal.grants is None or row is None:
            return None
        held = GrantedEntries(self._meta, caller, backed.catalog, namespace_from(row), kind)
        one = await held.one()
        if one is None:
            return None
        await self._authorizer.check(
            caller, backed.catalog, Action.LIST_TABLES, namespace=levels, kind=kind, securable=one
        )
        names = await held.names("", _HELD_AT_ONCE)
        found = set(names)
        while len(names) == _HELD_AT_ONCE:
            names = await held.names(names[-1], _HELD_AT_ONCE)
            found.update(names)
        return frozenset(found)

    async def _every(self, backed: Backed, levels: Levels, kind: EntryKind) -> Sequence[str]:
        found: list[str] = []
        paging = Paging()
        while True:
            page = await self._page(backed, levels, kind, paging)
            found += page.names
            if not page.next_token or page.next_token == paging.token:
                return found
            paging = Paging(page.next_token)

    async def _page(self, backed: Backed, levels: Levels, kind: EntryKind, paging: Paging) -> NameList:
        await self._passing.check_served(backed, f"GET /v1/{{prefix}}/namespaces/{{namespace}}/{kind}s")
        path = ("namespaces", await backed.remote.namespace(levels), f"{kind}s")
        answer = await self._passing.read(backed, RemoteRequest("GET", path, paging.query), MISSING)
        listed = parsed(answer, _Listed, backed.remote.host)
        names = [one.name for one in listed.identifiers if tuple(one.namespace) == levels]
        return NameList(levels, names, listed.next_page_token)

    async def check_exists(self, caller: Caller, backed: Backed, identifier: Identifier, kind: EntryKind) -> None:
        """Return if it is there. Raises NoSuchTable, NoSuchView."""
        privileges = OPERATIONS[f"{kind}Exists"].target
        await self._asking.check(caller, backed, Action.GET_TABLE, identifier, kind, privileges=privileges)
        template = f"/v1/{{prefix}}/namespaces/{{namespace}}/{kind}s/{{{kind}}}"
        endpoints = (await backed.remote.manners()).endpoints
        method = "HEAD" if f"HEAD {template}" in endpoints else "GET"
        await self._passing.check_served(backed, f"{method} {template}")
        await self._passing.read(
            backed, RemoteRequest(method, await self.path(backed, identifier, kind)), missing(kind)
        )

    async def drop(
        self, mutation: Mutation, backed: Backed, identifier: Identifier, kind: EntryKind, *, purge: bool = False
    ) -> None:
        """Drop it, and its files if they are to go. Raises NoSuchTable, NoSuchView."""
        privileges = OPERATIONS["dropTable purge"].target if purge and kind is EntryKind.TABLE else None
        caller = mutation.caller
        await self._asking.check(caller, backed, Action.DELETE_TABLE, identifier, kind, privileges=privileges)
        await self._serves(backed, "DELETE", kind)

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            await forget_entry(tx, backed.catalog_id, identifier)
            await self._passing.tell(
                tx,
                f"{kind.capitalize()}Dropped",
                caller,
                backed,
                now_ms,
                identifier.namespace,
                told_entry(backed, identifier, kind, now_ms, Told()),
                facts={"purge": "true" if purge else "false"},
            )

        query = {"purgeRequested": "true"} if purge else {}
        request = RemoteRequest("DELETE", await self.path(backed, identifier, kind), query)
        await self._passing.change(mutation, backed, request, missing(kind), record, StoredResponse(204))

    async def rename(self, mutation: Mutation, backed: Backed, asked: Rename, kind: EntryKind) -> None:
        """Give it another name; grants go along. Raises NoSuchTable, NoSuchView, AlreadyExists."""
        source, target = asked.source.identifier, asked.destination.identifier
        caller, needs = mutation.caller, OPERATIONS[f"rename{kind.capitalize()}"]
        await self._asking.check(caller, backed, Action.RENAME_TABLE, source, kind)
        await self._asking.check(caller, backed, Action.CREATE_TABLE, target, kind, privileges=needs.secondary)
        await self._passing.check_served(backed, f"POST /v1/{{prefix}}/{kind}s/rename")
        for one in (source, target):
            await backed.remote.namespace(one.namespace)

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            await rename_entry(tx, backed.catalog_id, source, target, kind, now_ms)
            await self._passing.tell(
                tx,
                f"{kind.capitalize()}Renamed",
                caller,
                backed,
                now_ms,
                target.namespace,
                told_entry(backed, target, kind, now_ms, Told()),
                facts={"from": str(source)},
            )

        await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", (f"{kind}s", "rename"), body=written(asked)),
            Meant(_MISSING[kind], AlreadyExists),
            record,
            StoredResponse(204),
        )

    async def register(
        self, mutation: Mutation, backed: Backed, levels: Sequence[str], asked: Registration, kind: EntryKind
    ) -> HttpResponse:
        """Give a metadata file a name. Raises AlreadyExists.

        The other side reads the file with its own rights: it may be that of any table. So this takes the right to read
        the data of all tables of the catalog.
        """
        identifier, caller = check_identifier(levels, asked.name), mutation.caller
        if asked.overwrite:
            privileges = OPERATIONS["registerTable overwrite"].target if kind is EntryKind.TABLE else None
            await self._asking.check(
                caller, backed, Action.UPDATE_METADATA_LOCATION, identifier, kind, privileges=privileges
            )
        await self._asking.check(caller, backed, Action.CREATE_TABLE, identifier, kind)
        await self._authorizer.check(caller, backed.catalog, Action.GET_TABLE_DATA)
        route = "register" if kind is EntryKind.TABLE else "register-view"
        await self._passing.check_served(backed, f"POST /v1/{{prefix}}/namespaces/{{namespace}}/{route}")
        path = ("namespaces", await backed.remote.namespace(identifier.namespace), route)
        return await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", path, body=written(asked)),
            Meant(NoSuchNamespace, AlreadyExists),
            self.recorder(caller, backed, identifier, kind, "Registered"),
            kept(identifier),
        )

    # -- for those who do one kind of them more --------------------------------------------------------------------

    async def path(self, backed: Backed, identifier: Identifier, kind: EntryKind, *further: str) -> tuple[str, ...]:
        """Its path on the other side."""
        namespace = await backed.remote.namespace(identifier.namespace)
        return ("namespaces", namespace, f"{kind}s", identifier.name, *further)

    async def _serves(self, backed: Backed, method: str, kind: EntryKind) -> None:
        await self._passing.check_served(backed, f"{method} /v1/{{prefix}}/namespaces/{{namespace}}/{kind}s/{{{kind}}}")

    def recorder(self, caller: Caller, backed: Backed, identifier: Identifier, kind: EntryKind, what: str) -> _Recorder:
        """Tells of a table or view that was made or changed, with what the answer says of it."""
        return _Recorder(self._passing, caller, backed, identifier, kind, what)


@dataclass(frozen=True, slots=True)
class _Recorder:
    passing: Passing
    caller: Caller
    backed: Backed
    identifier: Identifier
    kind: EntryKind
    what: str

    async def __call__(self, tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
        told = Told() if answer.status == 204 else parsed(answer, Told, self.backed.remote.host, changes=True)
        if self.what != "Committed":
            # Somebody may have dropped, behind our back, what had the name before.
            await forget_entry(tx, self.backed.catalog_id, self.identifier)
        await self.passing.tell(
            tx,
            f"{self.kind.capitalize()}{self.what}",
            self.caller,
            self.backed,
            now_ms,
            self.identifier.namespace,
            told_entry(self.backed, self.identifier, self.kind, now_ms, told),
            snapshot=max(told.metadata.current_snapshot_id or 0, 0) if self.what == "Committed" else 0,
        )


def missing(kind: EntryKind) -> Meant:
    """What the plain statuses mean for one of them."""
    return Meant(_MISSING[kind], CommitConflict)


def kept(identifier: Identifier) -> StoredResponse:
    """What a key keeps of a change that is answered with a table or view: which it is."""
    return StoredResponse(200, entry=f"{_SHOWN_AGAIN}{path_of(identifier.namespace)}\n{identifier.name}")


def shown_again(entry: str) -> Identifier | None:
    """What a key has kept, if it is of a catalog behind this one."""
    if not entry.startswith(_SHOWN_AGAIN):
        return None
    path, _, name = entry.removeprefix(_SHOWN_AGAIN).partition("\n")
    return Identifier(levels_of(path), name)

"""Tables of the catalog behind this one: made, shown, committed to, one by one or together; keys to their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import quote

from msgspec import Raw

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import SEPARATOR, Identifier, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AccessDenied, AlreadyExists, CommitConflict, NoSuchNamespace, NoSuchTable
from lakebed.core.json.parsing import parse_body
from lakebed.governance.rbac import OPERATIONS, commit_privileges
from lakebed.meta.seam import Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, parsed
from ..remote.failures import Meant
from .asking import Asking, Rights, may_have_keys
from .connections import Backed
from .documents import (
    Change,
    Fields,
    Registration,
    marked_tag,
    read_change,
    read_named,
    read_transaction,
    shown_credentials,
    shown_table,
    unmarked_tags,
    written,
)
from .entries import RemoteEntries, kept, missing
from .passing import Passing

DELEGATION: Final = "x-iceberg-access-delegation"
VENDED: Final = "vended-credentials"

_TABLE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a client wants to be shown a table."""

    query: Mapping[str, str] = field(default_factory=dict)
    """What of its query means something to the other side."""
    if_none_match: str | None = None
    wants_access: bool = False
    """Whether it asks for a way to the table's files."""
    wants_keys: bool = False
    """Whether that may be keys."""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as the client is shown it; 304 if it has it already."""

    status: int
    document: Fields = field(default_factory=dict, repr=False)
    tag: str | None = None
    with_keys: bool = False


class RemoteTables:
    """The use cases of tables. All of them raise what the other side refuses with."""

    def __init__(self, entries: RemoteEntries, asking: Asking, passing: Passing) -> None:
        self._entries = entries
        self._asking = asking
        self._passing = passing

    async def create(
        self, mutation: Mutation, backed: Backed, levels: Sequence[str], body: bytes, wanted: Wanted
    ) -> ShownTable:
        """Make a table, or have it staged. Raises AlreadyExists, NoSuchNamespace."""
        name, staged, document = await parse_body(read_named, body)
        identifier, caller = check_identifier(levels, name), mutation.caller
        await self._asking.check(caller, backed, Action.CREATE_TABLE, identifier, EntryKind.TABLE)
        with_keys = wanted.wants_keys and may_have_keys(backed, await self._asking.rights(caller, backed, identifier))
        request = RemoteRequest(
            "POST",
            ("namespaces", await backed.remote.namespace(identifier.namespace), "tables"),
            body=document,
            headers=_delegation(with_keys),
        )
        meant = Meant(NoSuchNamespace, AlreadyExists)
        if staged:
            # Nothing comes to be: the commit tells of it, and a key has nothing to keep.
            answer = await self._passing.read(backed, request, meant)
        else:
            answer = await self._passing.change(
                mutation,
                backed,
                request,
                meant,
                self._entries.recorder(caller, backed, identifier, EntryKind.TABLE, "Created"),
                kept(identifier),
            )
        return self._shown(backed, identifier, answer, with_keys=with_keys, changes=True)

    async def load(self, caller: Caller, backed: Backed, identifier: Identifier, wanted: Wanted) -> ShownTable:
        """A table with its metadata. Raises NoSuchTable; AccessDenied for access to files that may not be read."""
        await self._asking.check(caller, backed, Action.GET_METADATA_LOCATION, identifier, EntryKind.TABLE)
        with_keys = False
        if wanted.wants_access:
            rights = await self._asking.rights(caller, backed, identifier)
            if rights is Rights.NONE:
                await self._asking.check(caller, backed, Action.GET_TABLE_DATA, identifier, EntryKind.TABLE)
            with_keys = wanted.wants_keys and may_have_keys(backed, rights)
        return await self._load(backed, identifier, wanted, with_keys=with_keys)

    async def _load(self, backed: Backed, identifier: Identifier, wanted: Wanted, *, with_keys: bool) -> ShownTable:
        headers = _delegation(with_keys)
        known = unmarked_tags(wanted.if_none_match or "", _mark(with_keys=with_keys))
        if known:
            headers["if-none-match"] = known
        path = await self._entries.path(backed, identifier, EntryKind.TABLE)
        request = RemoteRequest("GET", path, wanted.query, headers=headers)
        answer = await self._passing.read(backed, request, missing(EntryKind.TABLE))
        return self._shown(backed, identifier, answer, with_keys=with_keys)

    async def load_again(self, backed: Backed, identifier: Identifier) -> ShownTable:
        """A table for who was let through before, and repeats his request: without keys. Raises NoSuchTable."""
        return await self._load(backed, identifier, Wanted(), with_keys=False)

    async def register(
        self, mutation: Mutation, backed: Backed, levels: Sequence[str], asked: Registration
    ) -> ShownTable:
        """Give a metadata file a name. Raises AlreadyExists."""
        answer = await self._entries.register(mutation, backed, levels, asked, EntryKind.TABLE)
        return self._shown(backed, check_identifier(levels, asked.name), answer, with_keys=False, changes=True)

    async def commit(self, mutation: Mutation, backed: Backed, identifier: Identifier, body: bytes) -> ShownTable:
        """Commit to a table, or create one that was staged. Raises CommitConflict, NoSuchTable, AlreadyExists."""
        change, caller = await parse_body(partial(read_change, identifier=identifier), body), mutation.caller
        await self._admit(caller, backed, change, in_transaction=False)
        request = RemoteRequest(
            "POST", await self._entries.path(backed, identifier, EntryKind.TABLE), body=written(change.document)
        )
        what = "Created" if change.creates else "Committed"
        answer = await self._passing.change(
            mutation,
            backed,
            request,
            Meant(NoSuchTable, CommitConflict),
            self._entries.recorder(caller, backed, identifier, EntryKind.TABLE, what),
            kept(identifier),
        )
        return self._shown(backed, identifier, answer, with_keys=False, changes=True)

    async def commit_all(self, mutation: Mutation, backed: Backed, body: bytes) -> None:
        """Commit to many tables, wholly or not at all. Raises CommitConflict, NoSuchTable."""
        changes, caller = await parse_body(read_transaction, body), mutation.caller
        for change in changes:
            await self._admit(caller, backed, change, in_transaction=True)
        await self._passing.check_served(backed, "POST /v1/{prefix}/transactions/commit")
        for change in changes:
            await backed.remote.namespace(change.identifier.namespace)

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            for change in changes:
                what = "Created" if change.creates else "Committed"
                told = self._entries.recorder(caller, backed, change.identifier, EntryKind.TABLE, what)
                await told(tx, HttpResponse(204, b""), now_ms)

        document = {"table-changes": [change.document for change in changes]}
        await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", ("transactions", "commit"), body=written(document)),
            Meant(NoSuchTable, CommitConflict),
            record,
            StoredResponse(204),
        )

    async def credentials(
        self, caller: Caller, backed: Backed, identifier: Identifier, query: Mapping[str, str]
    ) -> Raw:
        """Keys to the files of a table. Raises AccessDenied, NoSuchTable."""
        rights = await self._asking.rights(caller, backed, identifier)
        if rights is Rights.NONE:
            await self._asking.check(caller, backed, Action.GET_TABLE_DATA, identifier, EntryKind.TABLE)
        if not may_have_keys(backed, rights):
            raise AccessDenied(
                f"keys of the catalog behind this one are for {backed.connection.config.keys_for}: {identifier}"
            )
        await self._passing.check_served(backed, f"GET {_TABLE}/credentials")
        path = await self._entries.path(backed, identifier, EntryKind.TABLE, "credentials")
        answer = await self._passing.read(backed, RemoteRequest("GET", path, query), missing(EntryKind.TABLE))
        fields = parsed(answer, Fields, backed.remote.host)
        return shown_credentials(
            fields.get("storage-credentials", Raw(b"[]")), credentials_path(backed.name, identifier)
        )

    async def report(self, caller: Caller, backed: Backed, identifier: Identifier, kind: str, body: bytes) -> None:
        """Pass on what an engine reports of a scan or a commit. Raises NoSuchTable."""
        action, operation = (
            (Action.PUT_TABLE_DATA, "reportMetrics commit")
            if kind == "commit-report"
            else (Action.GET_TABLE_DATA, "reportMetrics scan")
        )
        privileges = OPERATIONS[operation].target
        await self._asking.check(caller, backed, action, identifier, EntryKind.TABLE, privileges=privileges)
        await self._passing.check_served(backed, f"POST {_TABLE}/metrics")
        path = await self._entries.path(backed, identifier, EntryKind.TABLE, "metrics")
        await self._passing.read(backed, RemoteRequest("POST", path, body=body), missing(EntryKind.TABLE))

    async def _admit(self, caller: Caller, backed: Backed, change: Change, *, in_transaction: bool) -> None:
        """Return if the caller may commit this. Raises AccessDenied."""
        if in_transaction:
            privileges = OPERATIONS["commitTransaction"].target
        elif change.creates:
            privileges = OPERATIONS["updateTable create"].target
        else:
            privileges = commit_privileges(change.kinds)
        for action in (
            (Action.CREATE_TABLE,) if change.creates else (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA)
        ):
            await self._asking.check(caller, backed, action, change.identifier, EntryKind.TABLE, privileges=privileges)

    def _shown(
        self,
        backed: Backed,
        identifier: Identifier,
        answer: HttpResponse,
        *,
        with_keys: bool,
        changes: bool = False,
    ) -> ShownTable:
        tag = answer.headers.get("etag")
        marked = None if tag is None else marked_tag(tag, _mark(with_keys=with_keys))
        if answer.status == 304:
            return ShownTable(304, tag=marked)
        fields = parsed(answer, Fields, backed.remote.host, changes=changes)
        path = credentials_path(backed.name, identifier)
        document = shown_table(fields, with_keys=with_keys, credentials_path=path)
        return ShownTable(200, document, marked, with_keys and "storage-credentials" in document)


def credentials_path(catalog: str, identifier: Identifier) -> str:
    """Where keys are renewed, relative to the URI of this catalog."""
    namespace = quote(SEPARATOR.join(identifier.namespace), safe="")
    table = quote(identifier.name, safe="")
    return f"v1/{quote(catalog, safe='')}/namespaces/{namespace}/tables/{table}/credentials"


def _delegation(with_keys: bool) -> dict[str, str]:
    return {DELEGATION: VENDED} if with_keys else {}


def _mark(*, with_keys: bool) -> str:
    return "k" if with_keys else "n"

"""Keys and signatures that the catalog handed out for tables' files, and what was done with them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .connection import ServerConnection
from .names import TableRef, joined, path

_DELEGATIONS = "/lakebed/v1/delegations"


class Delegation(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Keys, or a signature, that were handed out. Holds none of them."""

    id: str
    """The access key id."""
    kind: str
    """`vended-credentials` or `remote-signing`."""
    principal: str
    user_id: str
    arn: str
    obtained_with: str
    """The lasting key or the client id that the caller had come with."""
    request_id: str
    remote: str
    catalog: str
    namespace: list[str]
    table: str
    table_id: str
    prefixes: list[str]
    actions: list[str]
    issued_ms: int
    expires_ms: int
    signed_request: str = ""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(self.catalog, tuple(self.namespace), self.table)


class ObjectAccess(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Requests of one kind for one object with one key, added up; and for whom that key had been made."""

    bucket: str
    key: str
    operation: str
    status: int
    requests: int
    received_bytes: int
    sent_bytes: int
    first_ms: int
    last_ms: int
    last_request_id: str
    delegation: str
    """The id of the key."""
    principal: str
    table_id: str
    request_id: str
    """Of the request that had obtained the key."""
    issue_recorded: bool = True
    """False where a crash took the record of the key, or it is not written yet: what follows is not known then."""
    kind: str = ""
    catalog: str = ""
    namespace: list[str] = []
    table: str = ""


class _DelegationPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    delegations: list[Delegation]
    next_page_token: str | None = None


class _AccessPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    accesses: list[ObjectAccess]
    next_page_token: str | None = None


class AccessTrace:
    """The trail, over the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def delegations(
        self, *, principal: str = "", request_id: str = "", catalog: str = "", table: TableRef | None = None
    ) -> Iterator[Delegation]:
        """What was handed out, newest first."""
        asked = {"principal": principal, "request-id": request_id, "catalog": catalog}
        if table is not None:
            asked |= {"catalog": table.warehouse, "namespace": joined(table.namespace), "table": table.table}
        query = {name: value for name, value in asked.items() if value}
        for page in self._connection.pages(_DelegationPage, _DELEGATIONS, query):
            yield from page.delegations

    def delegation(self, access_key_id: str) -> Delegation:
        """To whom a key was handed out. Raises NotFound."""
        return self._connection.read(Delegation, "GET", _DELEGATIONS + path(access_key_id))

    def accesses(self, access_key_id: str) -> Iterator[ObjectAccess]:
        """What was done with a key, by bucket and object."""
        for page in self._connection.pages(_AccessPage, f"{_DELEGATIONS}{path(access_key_id)}/accesses"):
            yield from page.accesses

    def object(self, bucket: str, key: str) -> Iterator[ObjectAccess]:
        """What was done to an object, with whichever key."""
        query = {"bucket": bucket, "key": key}
        for page in self._connection.pages(_AccessPage, "/lakebed/v1/object-accesses", query):
            yield from page.accesses

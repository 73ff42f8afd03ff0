"""Trace of access delegation: vended credentials and signatures, and the requests made with them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .connection import ServerConnection
from .names import TableRef, joined, path

_DELEGATIONS = "/lakebed/v1/delegations"


class Delegation(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Vended credentials or a signature. Contains no secret."""

    id: str
    """The access key id."""
    kind: str
    """`vended-credentials` or `remote-signing`."""
    principal: str
    user_id: str
    arn: str
    obtained_with: str
    """The access key or client id that the caller had authenticated with."""
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
    """Requests of one operation on one object with the same credentials, summed up."""

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
    """The access key id."""
    principal: str
    table_id: str
    request_id: str
    """The request that obtained the credentials."""
    issue_recorded: bool = True
    """False if the record of the credentials was lost or is not written yet: the fields below are unknown then."""
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
    """The trace API."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def delegations(
        self, *, principal: str = "", request_id: str = "", catalog: str = "", table: TableRef | None = None
    ) -> Iterator[Delegation]:
        """Vended credentials and signatures, newest first."""
        filters = {"principal": principal, "request-id": request_id, "catalog": catalog}
        if table is not None:
            filters |= {"catalog": table.warehouse, "namespace": joined(table.namespace), "table": table.table}
        query = {name: value for name, value in filters.items() if value}
        for page in self._connection.pages(_DelegationPage, _DELEGATIONS, query):
            yield from page.delegations

    def delegation(self, access_key_id: str) -> Delegation:
        """Get the record of an access key. Raises NotFound."""
        return self._connection.read(Delegation, "GET", _DELEGATIONS + path(access_key_id))

    def accesses(self, access_key_id: str) -> Iterator[ObjectAccess]:
        """Requests made with an access key, by bucket and object."""
        for page in self._connection.pages(_AccessPage, f"{_DELEGATIONS}{path(access_key_id)}/accesses"):
            yield from page.accesses

    def object(self, bucket: str, key: str) -> Iterator[ObjectAccess]:
        """Requests for an object made with delegated access."""
        query = {"bucket": bucket, "key": key}
        for page in self._connection.pages(_AccessPage, "/lakebed/v1/object-accesses", query):
            yield from page.accesses

"""Forwards authorized requests to the external catalog, and records the changes that it made.

The change and its event are in two stores and cannot commit together: the event is written after the external catalog
responded that the change was made. A failure after that is reported as an undecided outcome, because the change exists.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.idempotency import IdempotencyKeys, Mutation, StoredResponse
from lakebed.catalog.identifiers import Levels
from lakebed.catalog.model import Entry
from lakebed.core.errors import DuplicateRequest, ExternalCatalogError, LakebedError, NotSupported, Unavailable
from lakebed.meta.seam import Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest
from ..remote.errors import StatusMapping, response_error
from .documents import EntrySummary
from .model import FederatedCatalog, FederatedEntry
from .synthetic_entities import blank_entry

log = logging.getLogger("lakebed.federation")

IDEMPOTENCY_KEY: Final = "idempotency-key"

RecordChange = Callable[[Transaction, HttpResponse, int], Awaitable[None]]
"""Records a change here, from its response and time, in the transaction that emits its event."""


class Forwarder:
    """Forwards requests of authorized callers."""

    def __init__(self, object_context: ObjectContext, keys: IdempotencyKeys) -> None:
        self._f = object_context
        self._keys = keys

    async def require_endpoint(self, catalog: FederatedCatalog, endpoint: str) -> None:
        """Return if the external catalog supports an endpoint of the specification. Raises NotSupported."""
        if endpoint not in (await catalog.remote.config()).endpoints:
            raise NotSupported(
                f"the external catalog does not support the endpoint. endpoint={endpoint} host={catalog.remote.host}"
            )

    async def read(self, catalog: FederatedCatalog, request: RemoteRequest, mapping: StatusMapping) -> HttpResponse:
        """The response to a request that changes nothing, whatever its method. Raises the external catalog's errors."""
        try:
            response = await catalog.remote.send(request)
        except ExternalCatalogError:
            raise
        except Unavailable as error:
            # A lost response leaves nothing undecided.
            raise Unavailable(str(error)) from error
        if response.status not in (200, 204, 304):
            raise response_error(response, catalog.remote.host, changes=False, mapping=mapping)
        return response

    async def change(
        self,
        mutation: Mutation,
        catalog: FederatedCatalog,
        request: RemoteRequest,
        mapping: StatusMapping,
        record: RecordChange,
        answer: StoredResponse,
    ) -> HttpResponse:
        """The response to a change; `answer` is stored here for its idempotency key.

        Raises the external catalog's errors, and DuplicateRequest.
        """
        headers = dict(request.headers)
        if mutation.key is not None:
            headers[IDEMPOTENCY_KEY] = mutation.key.id
        response = await catalog.remote.send(
            RemoteRequest(request.method, request.path, request.query, request.body, headers)
        )
        if not 200 <= response.status < 300:
            raise response_error(response, catalog.remote.host, changes=True, mapping=mapping)
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, answer)
            await record(tx, response, now_ms)

        try:
            # Shielded: a client that disconnects now does not undo the change.
            await asyncio.shield(self._f.meta.transact(work))
        except DuplicateRequest:
            raise
        except LakebedError as error:
            log.exception("change of external catalog was made and not recorded. catalog=%s", catalog.name)
            raise Unavailable(
                "the external catalog made the change, and this server could not record it", undecided=True
            ) from error
        return response

    async def emit(
        self,
        tx: Transaction,
        kind: str,
        caller: Caller,
        catalog: FederatedCatalog,
        now_ms: int,
        namespace: Levels,
        entry: Entry | None = None,
        *,
        snapshot: int = 0,
        facts: dict[str, str] | None = None,
    ) -> None:
        """Append an event to the transaction, with the external catalog's host and without an entry id."""
        await append_catalog_event(
            self._f.outbox,
            tx,
            kind,
            caller,
            now_ms,
            catalog.name,
            namespace,
            entry,
            snapshot=snapshot,
            facts={"remote": catalog.remote.host, **(facts or {})},
        )

    async def emit_entry(
        self,
        tx: Transaction,
        change: str,
        caller: Caller,
        entry: FederatedEntry,
        now_ms: int,
        summary: EntrySummary | None = None,
        *,
        snapshot: int = 0,
        facts: dict[str, str] | None = None,
    ) -> None:
        """The same for a table or view; `change` is the end of the event kind, such as `Dropped`."""
        summary = summary or EntrySummary()
        row = blank_entry("", entry.kind, entry.catalog.id, 0, entry.identifier.name, now_ms)._replace(
            uuid=summary.metadata.table_uuid or summary.metadata.view_uuid or "",
            metadata_at=summary.metadata_location or "",
        )
        kind, namespace = f"{entry.kind.capitalize()}{change}", entry.identifier.namespace
        await self.emit(tx, kind, caller, entry.catalog, now_ms, namespace, row, snapshot=snapshot, facts=facts)

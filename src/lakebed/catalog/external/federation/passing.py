"""Passes requests on, and records here what came of changes.

The change and its event are in two stores, so they cannot commit together: the event is written when the other side
has said that the change was made. What fails after that is told as an unknown outcome: the change is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.idempotency import IdempotencyKeys, Mutation, StoredResponse
from lakebed.catalog.identifiers import Identifier, Levels
from lakebed.catalog.model import Entry, EntryKind
from lakebed.core.errors import DuplicateRequest, ExternalCatalogError, LakebedError, NotSupported, Unavailable
from lakebed.meta.seam import Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest
from ..remote.failures import Meant, refusal_of
from .connections import Backed
from .documents import Told

log = logging.getLogger("lakebed.federation")

IDEMPOTENCY_KEY: Final = "idempotency-key"

Record = Callable[[Transaction, HttpResponse, int], Awaitable[None]]
"""Writes down what a change means here, in the transaction that tells of it, at a time."""


class Passing:
    """Passes requests on, for callers whom the gate has let through."""

    def __init__(self, object_context: ObjectContext, keys: IdempotencyKeys) -> None:
        self._f = object_context
        self._keys = keys

    async def check_served(self, backed: Backed, endpoint: str) -> None:
        """Return if the other side serves it, as the contract spells it. Raises NotSupported."""
        if endpoint not in (await backed.remote.manners()).endpoints:
            raise NotSupported(f"the catalog behind this one does not serve it: {endpoint}. host={backed.remote.host}")

    async def read(self, backed: Backed, request: RemoteRequest, meant: Meant) -> HttpResponse:
        """The answer to a request that changes nothing, whatever its method. Raises what the other side refuses."""
        try:
            answer = await backed.remote.ask(request)
        except ExternalCatalogError:
            raise
        except Unavailable as error:
            raise Unavailable(str(error)) from error
        if answer.status not in (200, 204, 304):
            raise refusal_of(answer, backed.remote.host, changes=False, meant=meant)
        return answer

    async def change(
        self,
        mutation: Mutation,
        backed: Backed,
        request: RemoteRequest,
        meant: Meant,
        record: Record,
        kept: StoredResponse,
    ) -> HttpResponse:
        """The answer to a request that changes something; `kept` is what its key keeps here.

        Raises what the other side refuses with, and DuplicateRequest.
        """
        headers = dict(request.headers)
        if mutation.key is not None:
            headers[IDEMPOTENCY_KEY] = mutation.key.id
        sent = RemoteRequest(request.method, request.path, request.query, request.body, headers)
        answer = await backed.remote.ask(sent)
        if not 200 <= answer.status < 300:
            raise refusal_of(answer, backed.remote.host, changes=True, meant=meant)
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, kept)
            await record(tx, answer, now_ms)

        try:
            # Shielded: a client that hangs up now does not undo what was done.
            await asyncio.shield(self._f.meta.transact(work))
        except DuplicateRequest:
            raise
        except LakebedError as error:
            log.exception("a change of the catalog behind this one was made and not recorded. catalog=%s", backed.name)
            raise Unavailable(
                "the catalog behind this one has made the change, and this server could not record it", undecided=True
            ) from error
        return answer

    async def tell(
        self,
        tx: Transaction,
        kind: str,
        caller: Caller,
        backed: Backed,
        now_ms: int,
        namespace: Levels,
        entry: Entry | None = None,
        *,
        operation: str = "",
        snapshot: int = 0,
        facts: dict[str, str] | None = None,
    ) -> None:
        """Append an event to what `tx` commits. It says where the thing is, and has no id: nothing here has it."""
        await append_catalog_event(
            self._f.outbox,
            tx,
            kind,
            caller,
            now_ms,
            backed.name,
            namespace,
            entry,
            operation=operation,
            snapshot=snapshot,
            facts={"remote": backed.remote.host, **(facts or {})},
        )


def told_entry(backed: Backed, identifier: Identifier, kind: EntryKind, now_ms: int, told: Told) -> Entry:
    """A table or view of the other side's, as events tell of it."""
    return Entry(
        "",
        kind,
        backed.catalog_id,
        0,
        identifier.name,
        uuid=told.metadata.table_uuid or told.metadata.view_uuid or "",
        format_version=0,
        location="",
        metadata_at=told.metadata_location or "",
        version_token="",
        generation=0,
        created_ms=now_ms,
        updated_ms=now_ms,
        protected=False,
    )

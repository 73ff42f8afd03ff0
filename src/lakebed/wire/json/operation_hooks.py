"""Operation hooks: calls listeners before an operation, and writes events after reads.

Every route of the JSON APIs runs inside `around`. Listeners that registered for the operation are called first, and
each may veto it. During the request, the outbox stores the operation's name with each event, in the transaction of the
change. After a successful read, an event is written if the settings list the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from uuid import uuid4

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.json.parsing import parse_body
from lakebed.core.operations import Operation, current_operation
from lakebed.governance.listeners import Intent, Listeners
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller
from lakebed.wire.http.message import Response

from .intents import IntentReaders, IntentSource
from .request import JsonRequest
from .route_operations import ROUTE_OPERATIONS

Perform = Callable[[], Awaitable[Response]]


class ReadEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of the event of a read."""

    warehouse: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    facts: dict[str, str] = {}
    principal: str = ""
    request_id: str = ""
    source_ip: str = ""


class OperationHooks:
    """Runs the hooks around the operations of all JSON APIs."""

    def __init__(
        self,
        listeners: Listeners,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        readers: IntentReaders,
        *,
        reported_reads: Iterable[Operation] = (),
    ) -> None:
        """`reported_reads` are the read operations with events; each event costs a commit."""
        self._listeners = listeners
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._intents = IntentSource(readers)
        self._reported = frozenset(operation for operation in reported_reads if operation.only_reads)
        self._vetoable_routes = self._routes_of(listeners.operations)
        """Routes with listeners; the intents of others are not read."""
        self._changing_routes = frozenset(
            route for route, operation in ROUTE_OPERATIONS.items() if not operation.only_reads
        )
        self._reported_routes = self._routes_of(self._reported)
        self._routes = self._vetoable_routes | self._changing_routes | self._reported_routes

    def _routes_of(self, operations: frozenset[Operation]) -> frozenset[str]:
        """The routes that may intend one of the operations."""
        return frozenset(
            route
            for route, operation in ROUTE_OPERATIONS.items()
            if self._intents.operations(route, operation) & operations
        )

    async def around(self, route: str, request: JsonRequest, perform: Perform) -> Response:
        """Run a handler between its hooks. Raises Vetoed, Unavailable if a listener fails, and the handler's errors."""
        if route not in self._routes:
            return await perform()
        operation = ROUTE_OPERATIONS[route]
        if route in self._vetoable_routes:
            await self._listeners.check(await self._read(route, operation, request))
        if route in self._changing_routes:
            response = await _stamped(operation, perform)
        else:
            response = await perform()
        if route in self._reported_routes:
            intents = await self._read(route, operation, request)
            await self._report([intent for intent in intents if intent.operation in self._reported])
        return response

    async def _read(self, route: str, operation: Operation, request: JsonRequest) -> Sequence[Intent]:
        now_ms = self._clock.now_ms()
        return await parse_body(lambda _: self._intents.read(route, operation, request, now_ms), request.body)

    async def around_catalog_deletion(self, caller: Caller, catalog: str, perform: Perform) -> Response:
        """Run the hooks around a bucket deletion over S3 that drops the bucket's catalog."""
        if Operation.DELETE_CATALOG in self._listeners.operations:
            intent = Intent(
                operation=Operation.DELETE_CATALOG,
                event_id=str(uuid4()),
                occurred_ms=self._clock.now_ms(),
                principal=caller.principal.name,
                principal_arn=caller.principal.caller_arn,
                request_id=caller.request_id,
                source_ip=caller.source_ip,
                catalog=catalog,
            )
            await self._listeners.check([intent])
        return await _stamped(Operation.DELETE_CATALOG, perform)

    async def _report(self, intents: Sequence[Intent]) -> None:
        async def work(tx: Transaction) -> None:
            for intent in intents:
                await self._outbox.append(tx, _read_event(intent))

        if intents:
            await self._meta.transact(work)


def _read_event(intent: Intent) -> OutboxEvent:
    payload = ReadEvent(
        warehouse=intent.catalog,
        namespace=intent.namespace,
        name=intent.name,
        facts=dict(intent.facts),
        principal=intent.principal,
        request_id=intent.request_id,
        source_ip=intent.source_ip,
    )
    operation = intent.operation
    encoded = msgspec.msgpack.encode(payload)
    return OutboxEvent(operation.after, intent.subject, encoded, intent.occurred_ms, operation.value)


async def _stamped(operation: Operation, perform: Perform) -> Response:
    """Run a handler so that its events have the operation's name."""
    # In a task with its own context: requests start in the context of their connection, where the name would remain for
    # later requests (`wire.http.eager`).
    context = copy_context()
    context.run(current_operation.set, operation.value)
    return await asyncio.create_task(_performed(perform), context=context)


async def _performed(perform: Perform) -> Response:
    return await perform()

"""The one place at which operations meet those who listen, for every edge: asked before, stamped, told after.

Every route of the catalog, of policies, of the management and the administration's API passes `around`. Before it is
handled, those are asked who want to be, and any of them may veto it. While it is handled, the outbox writes the
operation's name beside each event of what changes, in the transaction of the change. What only reads changes nothing
and has no such events; who wants to be told of it has it written after it succeeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from uuid import uuid4

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.operations import Operation, under_way
from lakebed.core.parsing import parse_body
from lakebed.governance.listeners import Intent, Listeners
from lakebed.meta.outbox import Event, Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller
from lakebed.wire.http.message import Response

from .intents import operations_of, read_intents
from .request import JsonRequest
from .route_operations import OPERATION_OF

Perform = Callable[[], Awaitable[Response]]


class ReadEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of what is told of a read."""

    warehouse: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    facts: dict[str, str] = {}
    principal: str = ""
    request_id: str = ""
    source_ip: str = ""


class OperationHooks:
    """Stands between the edges and what they do."""

    def __init__(
        self,
        listeners: Listeners,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        *,
        told_reads: Iterable[Operation] = (),
    ) -> None:
        """`told_reads` are the reading operations that events are written of: each of them costs a commit."""
        self._listeners = listeners
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._told = frozenset(operation for operation in told_reads if operation.only_reads)
        self._asked_routes = frozenset(
            route for route, operation in OPERATION_OF.items() if operations_of(route, operation) & listeners.asked
        )
        """Routes before which somebody wants to be asked: for all others nothing is read and nobody waits."""
        self._changing_routes = frozenset(
            route for route, operation in OPERATION_OF.items() if not operation.only_reads
        )
        self._told_routes = frozenset(
            route for route, operation in OPERATION_OF.items() if operations_of(route, operation) & self._told
        )
        self._routes = self._asked_routes | self._changing_routes | self._told_routes

    async def around(self, route: str, request: JsonRequest, perform: Perform) -> Response:
        """Have a route handled. Raises Vetoed; Unavailable when a listener did not decide; what handling raises."""
        if route not in self._routes:
            return await perform()
        operation = OPERATION_OF[route]
        if route in self._asked_routes:
            await self._listeners.ask(await self._intents(route, operation, request))
        if route in self._changing_routes:
            response = await _stamped(operation, perform)
        else:
            response = await perform()
        if route in self._told_routes:
            intents = await self._intents(route, operation, request)
            await self._tell([intent for intent in intents if intent.operation in self._told])
        return response

    async def _intents(self, route: str, operation: Operation, request: JsonRequest) -> Sequence[Intent]:
        now_ms = self._clock.now_ms()
        return await parse_body(lambda _: read_intents(route, operation, request, now_ms), request.body)

    async def around_catalog_deletion(self, caller: Caller, catalog: str, perform: Perform) -> Response:
        """The same for a catalog that goes with its bucket, which is deleted as any bucket is."""
        if Operation.DELETE_CATALOG in self._listeners.asked:
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
            await self._listeners.ask([intent])
        return await _stamped(Operation.DELETE_CATALOG, perform)

    async def _tell(self, intents: Sequence[Intent]) -> None:
        async def work(tx: Transaction) -> None:
            for intent in intents:
                await self._outbox.append(tx, _read_event(intent))

        if intents:
            await self._meta.transact(work)


def _read_event(intent: Intent) -> Event:
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
    return Event(operation.after, intent.subject, encoded, intent.occurred_ms, operation.value)


async def _stamped(operation: Operation, perform: Perform) -> Response:
    """Have the outbox write the operation beside each event of what is performed."""
    # In a context of its own, which takes a task of its own: requests begin in that of their connection, where what is
    # set would stay for those that follow (`wire.http.eager`).
    context = copy_context()
    context.run(under_way.set, operation.value)
    return await asyncio.create_task(_performed(perform), context=context)


async def _performed(perform: Perform) -> Response:
    return await perform()

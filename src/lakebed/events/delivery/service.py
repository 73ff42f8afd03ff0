"""Manages targets: add, show, test, pause, remove; list and redrive dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.errors import Corrupted, InvalidInput, LakebedError, NotFound, StateConflict
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..live.listeners import ListenerRegistry
from ..rules import buckets_naming
from ..targets.registry import TargetTypes
from ..targets.seam import TargetSettings, TargetType
from . import rows
from .model import (
    Delivery,
    DeliveryState,
    Subscription,
    TargetRecord,
    check_form,
    check_name,
    delivery_from,
    parse_subscription,
    target_arn,
    target_id,
)
from .records import TargetRecords, drop_deliveries, settings_document
from .request_log import RequestLog

MANAGE_TARGETS: Final = "lakebed:ManageTargets"
"""Permits requests from the server to arbitrary hosts, so only the administrator's canned policy includes it."""

MAX_TARGETS: Final = 100

MASK: Final = "***"
"""Replaces secrets in responses. A request with this value keeps the stored secret."""

_TEST_SECONDS: Final = 15.0


class TargetEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of events about targets."""

    target: str
    redriven: int = 0
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The requested configuration of a target."""

    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    form: str = ""
    kinds: Sequence[str] = ()
    subject: str = ""
    audit: bool = False
    requests: bool = False


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A target, and the state of its deliveries."""

    record: TargetRecord
    arn: str
    after: int | None
    """The outbox cursor; None until the target is served for the first time."""
    last_seq: int
    waiting: int
    dead: int
    failure: str
    """The reason of the last failure among undelivered events."""
    requests_behind: int = 0
    """Requests after the target's cursor."""


class PutTargetResult(NamedTuple):
    """An added or changed target."""

    record: TargetRecord
    arn: str
    is_new: bool
    generated: Mapping[str, object]
    """Generated settings. Only this response shows them."""


class TargetService:
    """The operations on targets. Every method raises AccessDenied."""

    def __init__(
        self,
        context: ObjectContext,
        records: TargetRecords,
        types: TargetTypes,
        requests: RequestLog,
        listeners: ListenerRegistry,
    ) -> None:
        self._context = context
        self._records = records
        self._types = types
        self._requests = requests
        self._listeners = listeners

    async def list(self, caller: Caller) -> Sequence[TargetStatus]:
        """All targets, sorted by id."""
        await self._authorize(caller)
        return [await self._status(record) for record in await self._records.all()]

    async def arns(self, caller: Caller) -> Sequence[str]:
        """The ARNs of all targets."""
        await self._authorize(caller)
        return [target_arn(self._context.region, record.id) for record in await self._records.all()]

    async def get(self, caller: Caller, name: str, type_: str) -> TargetStatus:
        """One target. Raises NotFound."""
        await self._authorize(caller)
        return await self._status(await self._found(self._context.meta, name, type_))

    async def put(self, caller: Caller, name: str, type_: str, spec: TargetSpec) -> PutTargetResult:
        """Add or change a target. A new one receives events from now on; a changed one keeps its cursor.

        Omitted secrets are kept. Raises InvalidInput, StateConflict for targets in the settings, Unavailable if the
        target cannot be prepared.
        """
        await self._authorize(caller)
        context = self._context
        check_name(name)
        check_form(spec.form)
        target_type = self._types.find(type_)
        subscription = parse_subscription(spec.kinds, spec.subject, audit=spec.audit, requests=spec.requests)
        check_requests(target_type, subscription)
        self._check_not_in_settings(name, type_)
        before = await self._before(name, type_)
        settings, generated = self._settings(target_type, spec.settings, None if before is None else before.settings)
        await target_type.make(settings).close()  # validates without connecting
        if target_type.prepare is not None:
            await target_type.prepare(settings)
        record = TargetRecord(name, type_, settings, subscription, spec.form, before is not None and before.is_paused)
        stored = self._records.stored(record)
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> PutTargetResult:
            is_new = await tx.row(rows.TARGET, name, type_) is None
            if is_new and len(await tx.rows(rows.IDS)) >= MAX_TARGETS:
                raise StateConflict(f"too many targets: remove one first. maximum={MAX_TARGETS}")
            await tx.run(
                rows.PUT_TARGET,
                name,
                type_,
                stored.document,
                stored.sealed,
                spec.form,
                ",".join(subscription.kinds),
                subscription.subject,
                int(subscription.audit),
                0,
                int(subscription.requests),
                now_ms,
                now_ms,
            )
            await self._requests.set_subscribed(tx, record.id, subscribed=subscription.requests)
            await context.outbox.open_cursor(tx, record.cursor, at_seq=await context.outbox.last_seq(tx))
            await self._emit(tx, "TargetCreated" if is_new else "TargetChanged", caller, record.id)
            return PutTargetResult(record, target_arn(context.region, record.id), is_new, generated)

        result = await context.meta.transact(work)
        # At once in this process; other processes poll within a second.
        await self._listeners.refresh_request_subscribers()
        return result

    async def delete(self, caller: Caller, name: str, type_: str) -> None:
        """Remove a target with its undelivered events. Raises NotFound, StateConflict while a bucket rule names it."""
        await self._authorize(caller)
        self._check_not_in_settings(name, type_)
        target = target_id(name, type_)

        async def work(tx: Transaction) -> None:
            # Without decoding it, so that invalid targets can be removed.
            if not await tx.run(rows.DELETE_TARGET, name, type_):
                raise _no_such(target)
            buckets = await buckets_naming(tx, target)
            if buckets:
                raise StateConflict(
                    f"bucket rules name the target: change them first. target={target}"
                    f" buckets={', '.join(buckets[:10])}"
                )
            await drop_deliveries(self._context.outbox, tx, target)
            await self._requests.set_subscribed(tx, target, subscribed=False)
            await self._emit(tx, "TargetDeleted", caller, target)

        await self._context.meta.transact(work)
        await self._listeners.refresh_request_subscribers()

    async def pause(self, caller: Caller, name: str, type_: str, *, is_paused: bool) -> None:
        """Pause or resume a target. The outbox keeps the events of a paused target.

        Raises NotFound, StateConflict for targets in the settings.
        """
        await self._authorize(caller)
        self._check_not_in_settings(name, type_)
        now_ms = self._context.clock.now_ms()

        async def work(tx: Transaction) -> None:
            record = await self._found(tx, name, type_)
            if record.is_paused is is_paused:
                return
            await tx.run(rows.PAUSE_TARGET, int(is_paused), now_ms, name, type_)
            await self._emit(tx, "TargetPaused" if is_paused else "TargetResumed", caller, record.id)

        await self._context.meta.transact(work)

    async def test(self, caller: Caller, name: str, type_: str) -> str | None:
        """Why the target would reject an event now; None if it would accept it. Raises NotFound."""
        await self._authorize(caller)
        record = await self._found(self._context.meta, name, type_)
        target = self._types.find(type_).make(record.settings)
        try:
            async with asyncio.timeout(_TEST_SECONDS):
                await target.check()
        except TimeoutError:
            return f"no response within {_TEST_SECONDS:g} s"
        except LakebedError as error:
            return str(error) or type(error).__name__
        finally:
            await target.close()
        return None

    async def deliveries(
        self, caller: Caller, name: str, type_: str, state: DeliveryState, *, after_seq: int, limit: int
    ) -> Sequence[Delivery]:
        """Waiting events or dead letters of a target, oldest first. Raises NotFound."""
        await self._authorize(caller)
        record = await self._found(self._context.meta, name, type_)
        found = await self._context.meta.rows(rows.DELIVERIES, record.id, state.value, after_seq, limit)
        return [delivery_from(row) for row in found]

    async def redrive(self, caller: Caller, name: str, type_: str, seq: int | None) -> int:
        """Retry all dead letters, or one, with new attempts; return their number. Raises NotFound."""
        await self._authorize(caller)
        target = (await self._found(self._context.meta, name, type_)).id
        now_ms = self._context.clock.now_ms()

        async def work(tx: Transaction) -> int:
            if seq is None:
                count = await tx.run(rows.REDRIVE_ALL, now_ms, now_ms, target)
            else:
                count = await tx.run(rows.REDRIVE_ONE, now_ms, now_ms, target, seq)
                if not count:
                    raise NotFound(f"no such dead letter. target={target} seq={seq}")
            if count:
                await self._emit(tx, "TargetRedriven", caller, target, redriven=count)
            return count

        return await self._context.meta.transact(work)

    def _settings(
        self, target_type: TargetType[Any], given: Mapping[str, object], before: TargetSettings | None
    ) -> tuple[TargetSettings, Mapping[str, object]]:
        """The new settings, with earlier secrets where omitted; and the generated fields."""
        document = {name: value for name, value in given.items() if not _is_masked(target_type, name, value)}
        if before is not None:
            kept = settings_document(before)
            document = {name: kept[name] for name in target_type.settings.secrets if name in kept} | document
        configured = self._types.read(target_type.name, document)
        settings = configured.completed()
        settings.validate()
        final = settings_document(settings)
        return settings, {name: final[name] for name in final if getattr(configured, name) != getattr(settings, name)}

    async def _authorize(self, caller: Caller) -> None:
        await self._context.authorize_account(caller, MANAGE_TARGETS, "*")

    def _check_not_in_settings(self, name: str, type_: str) -> None:
        target = target_id(name, type_)
        if target in self._records.configured:
            raise StateConflict(f"target is configured in the settings: change it there. target={target}")

    async def _found(self, reader: Reader, name: str, type_: str) -> TargetRecord:
        found = await self._records.find(reader, name, type_)
        if found is None:
            raise _no_such(target_id(name, type_))
        return found

    async def _before(self, name: str, type_: str) -> TargetRecord | None:
        try:
            return await self._records.find(self._context.meta, name, type_)
        except Corrupted:
            return None  # replaced as if new

    async def _status(self, record: TargetRecord) -> TargetStatus:
        context = self._context
        counts: dict[str, int] = dict(await context.meta.rows(rows.COUNTS, record.id))
        failure = await context.meta.row(rows.LAST_FAILURE, record.id)
        return TargetStatus(
            record,
            target_arn(context.region, record.id),
            await context.outbox.cursor(context.meta, record.cursor),
            await context.outbox.last_seq(context.meta),
            counts.get(DeliveryState.WAITING.value, 0),
            counts.get(DeliveryState.DEAD.value, 0),
            "" if failure is None else failure[0],
            await self._requests.behind(record.id),
        )

    async def _emit(self, tx: Transaction, kind: str, caller: Caller, target: str, *, redriven: int = 0) -> None:
        payload = TargetEvent(
            target=target,
            redriven=redriven,
            principal=caller.principal.name,
            account=caller.principal.account,
            request_id=caller.request_id,
            source_ip=caller.source_ip,
        )
        event = OutboxEvent(kind, target, msgspec.msgpack.encode(payload), self._context.clock.now_ms())
        await self._context.outbox.append(tx, event)


def masked_settings(settings: TargetSettings) -> dict[str, Any]:
    """Settings with masked secrets. Any: JSON."""
    document = settings_document(settings)
    return {name: MASK if name in settings.secrets else value for name, value in document.items()}


def check_requests(target_type: TargetType[Any], subscription: Subscription) -> None:
    """Return if the target type supports the subscription. Raises InvalidInput."""
    if subscription.requests and not target_type.takes_requests:
        raise InvalidInput(f"targets of type {target_type.name} do not accept requests", argument="requests")


def _no_such(target: str) -> NotFound:
    return NotFound(f"no such target. target={target}")


def _is_masked(target_type: TargetType[Any], name: str, value: object) -> bool:
    return name in target_type.settings.secrets and value == MASK

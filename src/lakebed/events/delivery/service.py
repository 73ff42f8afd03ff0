"""Targets for those who look after them: made, shown, tried, paused, removed; what could not be delivered, and that
tried again.
"""

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
"""Whoever may has the server call others: not among the rights of any canned policy but the administrator's."""

MOST_TARGETS: Final = 100

HIDDEN: Final = "***"
"""What is shown of a secret. Whoever gives it back leaves the secret as it is."""

_TEST_SECONDS: Final = 15.0


class TargetEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of what happened to a target."""

    target: str
    redriven: int = 0
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target as somebody wants it."""

    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    form: str = ""
    kinds: Sequence[str] = ()
    subject: str = ""
    audit: bool = False
    requests: bool = False


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A target, and how its deliveries stand."""

    record: TargetRecord
    arn: str
    after: int | None
    """The last event that it is done with, or that waits for it; None until it has been served for the first time."""
    last_seq: int
    waiting: int
    dead: int
    failure: str
    """Why the last attempt failed, of what is not delivered yet."""
    requests_behind: int = 0
    """Requests that it has not been through."""


class PutTargetResult(NamedTuple):
    """A target that was made or changed."""

    record: TargetRecord
    arn: str
    is_new: bool
    made: Mapping[str, object]
    """Settings that were made up here: they are shown this once."""


class TargetService:
    """The use cases. Everything raises AccessDenied."""

    def __init__(
        self,
        context: ObjectContext,
        records: TargetRecords,
        kinds: TargetTypes,
        requests: RequestLog,
        interests: ListenerRegistry,
    ) -> None:
        self._context = context
        self._records = records
        self._kinds = kinds
        self._requests = requests
        self._interests = interests

    async def list(self, caller: Caller) -> Sequence[TargetStatus]:
        """All of them, by name."""
        await self._authorize(caller)
        return [await self._status(one) for one in await self._records.all()]

    async def arns(self, caller: Caller) -> Sequence[str]:
        """How configurations of buckets name them."""
        await self._authorize(caller)
        return [target_arn(self._context.region, one.id) for one in await self._records.all()]

    async def get(self, caller: Caller, name: str, type_: str) -> TargetStatus:
        """One of them. Raises NotFound."""
        await self._authorize(caller)
        return await self._status(await self._found(self._context.meta, name, type_))

    async def put(self, caller: Caller, name: str, type_: str, asked: TargetSpec) -> PutTargetResult:
        """Add a target, or change one. It is told of what happens from now on, or goes on where it stood.

        Secrets that are not given are kept. Raises InvalidInput, StateConflict for one of the settings, Unavailable
        if what it needs elsewhere cannot be prepared.
        """
        await self._authorize(caller)
        context = self._context
        check_name(name)
        check_form(asked.form)
        kind = self._kinds.find(type_)
        wanted = parse_subscription(asked.kinds, asked.subject, audit=asked.audit, requests=asked.requests)
        check_requests(kind, wanted)
        self._refuse_stated(name, type_)
        before = await self._before(name, type_)
        settings, made = self._settings(kind, asked.settings, None if before is None else before.settings)
        # Whether it can be made at all; it connects to nobody by that.
        await kind.make(settings).close()
        if kind.prepare is not None:
            await kind.prepare(settings)
        record = TargetRecord(name, type_, settings, wanted, asked.form, before is not None and before.is_paused)
        stored = self._records.stored(record)
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> PutTargetResult:
            is_new = await tx.row(rows.TARGET, name, type_) is None
            if is_new and len(await tx.rows(rows.IDS)) >= MOST_TARGETS:
                raise StateConflict(f"there are {MOST_TARGETS} targets already: remove one first")
            await tx.run(
                rows.PUT_TARGET,
                name,
                type_,
                stored.shown,
                stored.sealed,
                asked.form,
                ",".join(wanted.kinds),
                wanted.subject,
                int(wanted.audit),
                0,
                int(wanted.requests),
                now_ms,
                now_ms,
            )
            await self._requests.set_subscribed(tx, record.id, subscribed=wanted.requests)
            await context.outbox.open_cursor(tx, record.cursor, at_seq=await context.outbox.last_seq(tx))
            await self._tell(tx, "TargetCreated" if is_new else "TargetChanged", caller, record.id)
            return PutTargetResult(record, target_arn(context.region, record.id), is_new, made)

        put = await context.meta.transact(work)
        # Here at once; the other processes look within a second.
        await self._interests.refresh_request_subscribers()
        return put

    async def delete(self, caller: Caller, name: str, type_: str) -> None:
        """Remove a target, and what waits for it. Raises NotFound, StateConflict while a bucket's rule names it."""
        await self._authorize(caller)
        self._refuse_stated(name, type_)
        target = target_id(name, type_)

        async def work(tx: Transaction) -> None:
            # Without reading it: one that cannot be read can be removed.
            if not await tx.run(rows.DELETE_TARGET, name, type_):
                raise _no_such(target)
            buckets = await buckets_naming(tx, target)
            if buckets:
                raise StateConflict(
                    f"rules of buckets name the target: change these first. target={target}"
                    f" buckets={', '.join(buckets[:10])}"
                )
            await drop_deliveries(self._context.outbox, tx, target)
            await self._requests.set_subscribed(tx, target, subscribed=False)
            await self._tell(tx, "TargetDeleted", caller, target)

        await self._context.meta.transact(work)
        await self._interests.refresh_request_subscribers()

    async def pause(self, caller: Caller, name: str, type_: str, *, is_paused: bool) -> None:
        """Send it nothing until it is resumed, or resume it; the outbox keeps what it has not had.

        Raises NotFound, StateConflict for one of the settings.
        """
        await self._authorize(caller)
        self._refuse_stated(name, type_)
        now_ms = self._context.clock.now_ms()

        async def work(tx: Transaction) -> None:
            record = await self._found(tx, name, type_)
            if record.is_paused is is_paused:
                return
            await tx.run(rows.PAUSE_TARGET, int(is_paused), now_ms, name, type_)
            await self._tell(tx, "TargetPaused" if is_paused else "TargetResumed", caller, record.id)

        await self._context.meta.transact(work)

    async def test(self, caller: Caller, name: str, type_: str) -> str | None:
        """Why the target would not take an event now; None if it would. Raises NotFound."""
        await self._authorize(caller)
        record = await self._found(self._context.meta, name, type_)
        target = self._kinds.find(type_).make(record.settings)
        try:
            async with asyncio.timeout(_TEST_SECONDS):
                await target.check()
        except TimeoutError:
            return f"no answer within {_TEST_SECONDS:g} s"
        except LakebedError as error:
            return str(error) or type(error).__name__
        finally:
            await target.close()
        return None

    async def deliveries(
        self, caller: Caller, name: str, type_: str, state: DeliveryState, *, after_seq: int, limit: int
    ) -> Sequence[Delivery]:
        """What waits for it, or was given up, oldest first. Raises NotFound."""
        await self._authorize(caller)
        record = await self._found(self._context.meta, name, type_)
        found = await self._context.meta.rows(rows.DELIVERIES, record.id, state.value, after_seq, limit)
        return [delivery_from(row) for row in found]

    async def redrive(self, caller: Caller, name: str, type_: str, seq: int | None) -> int:
        """Give what was given up all its attempts again, or one of it; how many. Raises NotFound."""
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
                await self._tell(tx, "TargetRedriven", caller, target, redriven=count)
            return count

        return await self._context.meta.transact(work)

    def _settings(
        self, kind: TargetType[Any], given: Mapping[str, object], before: TargetSettings | None
    ) -> tuple[TargetSettings, Mapping[str, object]]:
        """What was given, with the secrets of before where none are; and what had to be made up."""
        document = {name: value for name, value in given.items() if not _is_hidden(kind, name, value)}
        if before is not None:
            kept = settings_document(before)
            document = {name: kept[name] for name in kind.settings.secrets if name in kept} | document
        configured = self._kinds.read(kind.name, document)
        settings = configured.completed()
        settings.validate()
        made = settings_document(settings)
        return settings, {name: made[name] for name in made if getattr(configured, name) != getattr(settings, name)}

    async def _authorize(self, caller: Caller) -> None:
        await self._context.authorize_account(caller, MANAGE_TARGETS, "*")

    def _refuse_stated(self, name: str, type_: str) -> None:
        target = target_id(name, type_)
        if target in self._records.configured:
            raise StateConflict(f"the target is one of the settings: change these. target={target}")

    async def _found(self, reader: Reader, name: str, type_: str) -> TargetRecord:
        found = await self._records.find(reader, name, type_)
        if found is None:
            raise _no_such(target_id(name, type_))
        return found

    async def _before(self, name: str, type_: str) -> TargetRecord | None:
        try:
            return await self._records.find(self._context.meta, name, type_)
        except Corrupted:
            # It is set up anew, with all that it needs.
            return None

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

    async def _tell(self, tx: Transaction, kind: str, caller: Caller, target: str, *, redriven: int = 0) -> None:
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


def shown_settings(settings: TargetSettings) -> dict[str, Any]:
    """Settings as everybody may see them. Any: JSON."""
    document = settings_document(settings)
    return {name: HIDDEN if name in settings.secrets else value for name, value in document.items()}


def check_requests(kind: TargetType[Any], wanted: Subscription) -> None:
    """Return unless requests are asked for by a kind of target that has no use for them. Raises InvalidInput."""
    if wanted.requests and not kind.takes_requests:
        raise InvalidInput(f"a target of the type {kind.name} is not sent requests", argument="requests")


def _no_such(target: str) -> NotFound:
    return NotFound(f"no such target. target={target}")


def _is_hidden(kind: TargetType[Any], name: str, value: object) -> bool:
    return name in kind.settings.secrets and value == HIDDEN

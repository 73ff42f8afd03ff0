"""Wires targets: which kinds there are, which the settings name, who looks after them and who delivers to them."""

from __future__ import annotations

import random
from collections.abc import Mapping

from lakebed.catalog.tables.arrivals import Arrival, ArrivalRecorder, Destination
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, InvalidSetting, MissingExtra
from lakebed.core.ids import DeploymentId
from lakebed.core.secrets import Secret
from lakebed.core.settings import TargetEntry, TargetsSettings
from lakebed.events.delivery import (
    EventDispatcher,
    RequestLog,
    TargetOrigin,
    TargetRecord,
    TargetRecords,
    TargetService,
    check_requests,
    parse_subscription,
)
from lakebed.events.delivery.model import check_form
from lakebed.events.delivery.records import PURPOSE
from lakebed.events.ids import EventIds
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.events.rules import RuleMatcher
from lakebed.events.targets.pipeline import Arrive, ArrivedFile, pipeline_type
from lakebed.events.targets.registry import TargetTypes, load_target_type
from lakebed.events.targets.webhook import webhook_type
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.context import ObjectContext

from .request_log import own_messages


def wire_targets(
    object_context: ObjectContext,
    master: MasterKeys,
    settings: TargetsSettings,
    tasks: TaskQueue,
    requests: RequestLog,
    event_listeners: ListenerRegistry,
) -> tuple[TargetService, TargetRecords]:
    """Those who look after targets, as the settings have them. Raises InvalidSetting."""
    f = object_context
    kinds = target_types(settings, f.clock, _noted_by(ArrivalRecorder(f.meta, f.outbox, f.clock, tasks)))
    records = _records(f.meta, master, settings, kinds)
    return TargetService(f, records, kinds, requests, event_listeners), records


def wire_dispatcher(
    meta: MetaStore,
    outbox: Outbox,
    clock: Clock,
    master: MasterKeys,
    settings: TargetsSettings,
    event_listeners: ListenerRegistry,
    holder: str,
    *,
    region: str,
    deployment: DeploymentId,
) -> EventDispatcher:
    """Who delivers, under a name of its own among all that share the store. Raises InvalidSetting."""
    tasks = TaskQueue(meta, clock, random.SystemRandom())
    kinds = target_types(settings, clock, _noted_by(ArrivalRecorder(meta, outbox, clock, tasks)))
    return EventDispatcher(
        meta,
        outbox,
        clock,
        _records(meta, master, settings, kinds),
        kinds,
        RuleMatcher(meta),
        event_listeners,
        holder,
        random.SystemRandom(),
        request_log(meta, settings),
        own_messages(master).proof_for,
        region=region,
        ids=EventIds(deployment),
        max_attempts=settings.max_attempts,
    )


def request_log(meta: MetaStore, settings: TargetsSettings) -> RequestLog:
    """The log of requests, kept as the settings have it."""
    return RequestLog(meta, max_entries=settings.requests_kept)


def _records(meta: MetaStore, master: MasterKeys, settings: TargetsSettings, kinds: TargetTypes) -> TargetRecords:
    return TargetRecords(meta, Vault(master, PURPOSE), kinds, read_targets(settings, kinds))


def _noted_by(intake: ArrivalRecorder) -> Arrive:
    async def arrive(file: ArrivedFile) -> None:
        warehouse, namespace, table, event, source, version, etag, size, format = file
        await intake.arrive(
            Destination(warehouse, namespace, table),
            Arrival(event=event, source=source, version=version, etag=etag, bytes=size, format=format),
        )

    return arrive


def target_types(settings: TargetsSettings, clock: Clock, arrive: Arrive) -> TargetTypes:
    """Every kind of target that this build has."""
    webhook = webhook_type(clock, timeout_seconds=settings.timeout, allow_http=settings.allow_http)
    return TargetTypes([webhook, pipeline_type(arrive)], load_target_type)


def read_targets(settings: TargetsSettings, kinds: TargetTypes) -> dict[str, TargetRecord]:
    """The targets of the settings by their ids. Raises InvalidSetting by the path of what is wrong."""
    found: dict[str, TargetRecord] = {}
    for name, entry in settings.named.items():
        try:
            record = _read(name, entry, kinds)
        except InvalidInput as error:
            path = f"targets.named.{name}"
            if error.argument in ("type", "form", "kinds", "subject", "requests"):
                path += f".{error.argument}"
            elif error.argument == "kind":
                path += ".kinds"
            elif error.argument:
                path += f".settings.{error.argument}"
            raise InvalidSetting(f"{path}: {error}", argument=path) from None
        except MissingExtra as error:
            raise MissingExtra(f"targets.named.{name}.type: {error}") from None
        found[record.id] = record
    return found


def _read(name: str, entry: TargetEntry, kinds: TargetTypes) -> TargetRecord:
    settings = kinds.read(entry.type, _revealed(entry.settings))
    settings.validate()
    # Whether it can be made: what only this server refuses is found here.
    kind = kinds.find(entry.type)
    kind.make(settings)
    asked = parse_subscription(entry.kinds, entry.subject, audit=entry.audit, requests=entry.requests)
    check_requests(kind, asked)
    return TargetRecord(
        name,
        entry.type,
        settings,
        asked,
        check_form(entry.form),
        entry.paused,
        TargetOrigin.SETTINGS,
    )


def _revealed(configured: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in configured.items()}


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

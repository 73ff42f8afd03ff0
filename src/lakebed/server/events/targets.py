"""Wires targets: the target types, the targets in the settings, their management and delivery."""

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
    """The target service and its records. Raises InvalidSetting."""
    f = object_context
    types = target_types(settings, f.clock, _register_with(ArrivalRecorder(f.meta, f.outbox, f.clock, tasks)))
    records = _records(f.meta, master, settings, types)
    return TargetService(f, records, types, requests, event_listeners), records


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
    """The dispatcher; `holder` identifies it in the lease. Raises InvalidSetting."""
    tasks = TaskQueue(meta, clock, random.SystemRandom())
    types = target_types(settings, clock, _register_with(ArrivalRecorder(meta, outbox, clock, tasks)))
    return EventDispatcher(
        meta,
        outbox,
        clock,
        _records(meta, master, settings, types),
        types,
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
    """The request log, with its limit from the settings."""
    return RequestLog(meta, max_entries=settings.requests_kept)


def _records(meta: MetaStore, master: MasterKeys, settings: TargetsSettings, types: TargetTypes) -> TargetRecords:
    return TargetRecords(meta, Vault(master, PURPOSE), types, read_targets(settings, types))


def _register_with(recorder: ArrivalRecorder) -> Arrive:
    async def arrive(file: ArrivedFile) -> None:
        catalog, namespace, table, event, source, version, etag, size, format = file
        await recorder.arrive(
            Destination(catalog, namespace, table),
            Arrival(event=event, source=source, version=version, etag=etag, bytes=size, format=format),
        )

    return arrive


def target_types(settings: TargetsSettings, clock: Clock, arrive: Arrive) -> TargetTypes:
    """All target types of this build."""
    webhook = webhook_type(clock, timeout_seconds=settings.timeout, allow_http=settings.allow_http)
    return TargetTypes([webhook, pipeline_type(arrive)], load_target_type)


def read_targets(settings: TargetsSettings, types: TargetTypes) -> dict[str, TargetRecord]:
    """The targets in the settings, by id. Raises InvalidSetting with the path of the invalid setting."""
    found: dict[str, TargetRecord] = {}
    for name, entry in settings.named.items():
        try:
            record = _read(name, entry, types)
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


def _read(name: str, entry: TargetEntry, types: TargetTypes) -> TargetRecord:
    settings = types.read(entry.type, _revealed(entry.settings))
    settings.validate()
    target_type = types.find(entry.type)
    target_type.make(settings)  # finds settings that this server forbids, such as plain HTTP
    subscription = parse_subscription(entry.kinds, entry.subject, audit=entry.audit, requests=entry.requests)
    check_requests(target_type, subscription)
    return TargetRecord(
        name,
        entry.type,
        settings,
        subscription,
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

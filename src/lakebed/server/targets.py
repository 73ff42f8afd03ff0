"""Wires targets: which kinds there are, which the settings name, and who delivers to them."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, InvalidSetting, NotSupported
from lakebed.core.secrets import Secret
from lakebed.core.settings import TargetEntry, TargetsSettings
from lakebed.events.delivery import Dispatcher, Origin, TargetRecord, TargetRecords, Targets, wish
from lakebed.events.delivery.model import check_form
from lakebed.events.delivery.records import PURPOSE
from lakebed.events.interests import Interests
from lakebed.events.rules import RuleMatcher
from lakebed.events.targets.kinds import kind_named
from lakebed.events.targets.pipeline import Arrive, ArrivedFile, pipeline_kind
from lakebed.events.targets.registry import TargetKinds
from lakebed.events.targets.webhook import webhook_kind
from lakebed.governance.vault import MasterKeys, Vault
from lakebed.meta.leases import Leases
from lakebed.objects.facilities import Facilities
from lakebed.tables.upkeep.arrivals import Arrival, Arrivals, Destination


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What the edges and the worker need of it."""

    targets: Targets
    records: TargetRecords
    dispatcher: Dispatcher


def wire_targets(
    facilities: Facilities, master: MasterKeys, settings: TargetsSettings, interests: Interests, arrivals: Arrivals
) -> Deliveries:
    """All of it as the settings have it. Raises InvalidSetting."""
    f = facilities
    kinds = target_kinds(settings, f.clock, _noted_in(arrivals))
    records = TargetRecords(f.meta, Vault(master, PURPOSE), kinds, read_targets(settings, kinds))
    return Deliveries(
        Targets(f, records, kinds),
        records,
        Dispatcher(
            f,
            records,
            kinds,
            RuleMatcher(f.meta),
            interests,
            Leases(f.meta, f.clock),
            f"{socket.gethostname()}:{os.getpid()}",
            random.SystemRandom(),
            max_attempts=settings.max_attempts,
        ),
    )


def _noted_in(arrivals: Arrivals) -> Arrive:
    async def arrive(file: ArrivedFile) -> None:
        warehouse, namespace, table, event, source, version, etag, size, format = file
        await arrivals.arrive(
            Destination(warehouse, namespace, table),
            Arrival(event=event, source=source, version=version, etag=etag, bytes=size, format=format),
        )

    return arrive


def target_kinds(settings: TargetsSettings, clock: Clock, arrive: Arrive) -> TargetKinds:
    """Every kind of target that this build has."""
    webhook = webhook_kind(clock, timeout_seconds=settings.timeout, allow_http=settings.allow_http)
    return TargetKinds([webhook, pipeline_kind(arrive)], kind_named)


def read_targets(settings: TargetsSettings, kinds: TargetKinds) -> dict[str, TargetRecord]:
    """The targets of the settings by their ids. Raises InvalidSetting by the path of what is wrong."""
    found: dict[str, TargetRecord] = {}
    for name, entry in settings.named.items():
        try:
            record = _read(name, entry, kinds)
        except InvalidInput as error:
            path = f"targets.named.{name}"
            if error.argument in ("type", "form", "kinds", "subject"):
                path += f".{error.argument}"
            elif error.argument == "kind":
                path += ".kinds"
            elif error.argument:
                path += f".settings.{error.argument}"
            raise InvalidSetting(f"{path}: {error}", argument=path) from None
        except NotSupported as error:
            path = f"targets.named.{name}.type"
            raise InvalidSetting(f"{path}: {error}", argument=path) from None
        found[record.id] = record
    return found


def _read(name: str, entry: TargetEntry, kinds: TargetKinds) -> TargetRecord:
    settings = kinds.read(entry.type, _revealed(entry.settings))
    settings.validate()
    # Whether it can be made: what only this server refuses is found here.
    kinds.find(entry.type).make(settings)
    return TargetRecord(
        name,
        entry.type,
        settings,
        wish(entry.kinds, entry.subject, audit=entry.audit),
        check_form(entry.form),
        entry.paused,
        Origin.SETTINGS,
    )


def _revealed(stated: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in stated.items()}


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

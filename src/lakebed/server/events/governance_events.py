"""Wires operation hooks, the audit of refused requests, and the administration of event targets."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lakebed.catalog.tables.arrivals import Arrivals
from lakebed.core.clock import Clock
from lakebed.core.operations import parse_operations
from lakebed.core.settings import ListenersSettings, TargetsSettings
from lakebed.events.delivery import RequestLog, TargetRecords, TargetService
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.listeners import HookConfig, HttpHook, Listener, Listeners, load_listener
from lakebed.governance.refusal_records import RefusalRecorder
from lakebed.meta.tasks import TaskQueue
from lakebed.net.sync_client import threaded_http
from lakebed.objects.context import ObjectContext
from lakebed.wire.audit.refusals import OnRefusal, refusal_recorder
from lakebed.wire.iceberg import intents as iceberg_intents
from lakebed.wire.json.intents import IntentReaders
from lakebed.wire.json.operation_hooks import OperationHooks
from lakebed.wire.json.route_operations import ROUTE_OPERATIONS
from lakebed.wire.management import operations as management_operations
from lakebed.wire.polaris import operations as polaris_operations

from .targets import request_log, wire_targets

INTENT_READERS: Final[IntentReaders] = {
    **iceberg_intents.INTENT_READERS,
    **polaris_operations.INTENT_READERS,
    **management_operations.INTENT_READERS,
}

HOOKS_AT_ONCE: Final = 16
"""Concurrent requests to hooks per process: operations wait for them."""


@dataclass(frozen=True, slots=True)
class GovernanceEvents:
    """The hooks, recorders and targets that the APIs and the worker use."""

    hooks: OperationHooks
    recorder: RefusalRecorder
    targets: TargetService
    records: TargetRecords
    requests: RequestLog
    tasks: TaskQueue
    arrivals: Arrivals

    def refusal_recorder(self, edge: str) -> OnRefusal:
        """Records refused requests of a protocol."""
        return refusal_recorder(self.recorder, edge, ROUTE_OPERATIONS, failed_changes=edge != "s3")


def wire_governance_events(
    object_context: ObjectContext,
    master: MasterKeys,
    listeners: ListenersSettings | None = None,
    targets: TargetsSettings | None = None,
    event_listeners: ListenerRegistry | None = None,
) -> GovernanceEvents:
    """Wire listeners and targets by the settings; without settings there are none.

    Without `event_listeners`, no request of this process subscribes to live events. Raises InvalidSetting.
    """
    listeners, targets = listeners or ListenersSettings(), targets or TargetsSettings()
    f, clock = object_context, object_context.clock
    hooks = OperationHooks(
        Listeners(read_listeners(listeners, clock)),
        f.meta,
        f.outbox,
        clock,
        INTENT_READERS,
        reported_reads=parse_operations(listeners.after_reads),
    )
    tasks = TaskQueue(f.meta, clock, random.SystemRandom())
    requests = request_log(f.meta, targets)
    administered, records = wire_targets(
        f, master, targets, tasks, requests, event_listeners or ListenerRegistry(f.meta, clock, "")
    )
    return GovernanceEvents(
        hooks, RefusalRecorder(f.meta, f.outbox, clock), administered, records, requests, tasks, Arrivals(f)
    )


def read_listeners(configured: ListenersSettings, clock: Clock) -> list[Listener]:
    """The listeners of the settings, in the order of their calls. Raises InvalidSetting."""
    found = [load_listener(name) for name in configured.python]
    if configured.hooks:
        threads = ThreadPoolExecutor(HOOKS_AT_ONCE, thread_name_prefix="hooks")
        for name, hook in configured.hooks.items():
            policy = HookConfig(
                url=hook.url,
                secret=hook.secret,
                operations=parse_operations(hook.operations),
                timeout_seconds=hook.timeout,
                on_failure=hook.on_failure,
                sends_documents=hook.send_documents,
            )
            bundle = None if hook.ca_bundle is None else str(hook.ca_bundle)
            found.append(HttpHook(name, policy, threaded_http(bundle, threads), clock))
    return found

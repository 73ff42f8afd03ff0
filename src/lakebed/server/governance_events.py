"""Wires who is asked before operations, what is noted of refusals, and who is told what came of operations."""

from __future__ import annotations

import os
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.operations import parse_operations
from lakebed.core.settings import ListenersSettings, WebhooksSettings
from lakebed.events.selection import parse_selection
from lakebed.events.webhooks import Dispatcher, HttpSender, Origin, Subscriber, Webhooks
from lakebed.events.webhooks.subscribers import PURPOSE, Subscribers
from lakebed.governance.attempts import AttemptRecorder
from lakebed.governance.listeners import HookPolicy, HttpHook, Listener, Listeners, OnFailure, load_listener
from lakebed.governance.vault import MasterKeys, Vault
from lakebed.meta.leases import Leases
from lakebed.objects.facilities import Facilities
from lakebed.storage.credentials.http import Http, blocking_http
from lakebed.wire.announcing import Announcer
from lakebed.wire.governed_routes import OPERATION_OF
from lakebed.wire.refusals import Refused, refusal_notes

HOOKS_AT_ONCE: Final = 16
"""Requests to hooks under way at once in one process: operations wait for them."""

WEBHOOKS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class GovernanceEvents:
    """What the edges and the worker need of it."""

    announcer: Announcer
    recorder: AttemptRecorder
    webhooks: Webhooks
    dispatcher: Dispatcher

    def refused_at(self, edge: str) -> Refused:
        """Notes the refusals of an edge."""
        return refusal_notes(self.recorder, edge, OPERATION_OF, failed_changes=edge != "s3")


def wire_governance_events(
    facilities: Facilities,
    master: MasterKeys,
    listeners: ListenersSettings | None = None,
    webhooks: WebhooksSettings | None = None,
) -> GovernanceEvents:
    """All of it as the settings have it, or without any listener and subscriber. Raises InvalidSetting."""
    listeners, webhooks = listeners or ListenersSettings(), webhooks or WebhooksSettings()
    f, clock = facilities, facilities.clock
    announcer = Announcer(
        Listeners(read_listeners(listeners, clock)),
        f.meta,
        f.outbox,
        clock,
        told_reads=parse_operations(listeners.after_reads),
    )
    subscribers = Subscribers(f.meta, Vault(master, PURPOSE), read_subscribers(webhooks))
    # Threads of its own: a receiver that does not answer must not hold back anything else.
    threads = ThreadPoolExecutor(WEBHOOKS_AT_ONCE, thread_name_prefix="webhooks")

    def connect(ca_bundle: str | None) -> Http:
        return blocking_http(ca_bundle, threads)

    return GovernanceEvents(
        announcer,
        AttemptRecorder(f.meta, f.outbox, clock),
        Webhooks(f, subscribers, allow_http=webhooks.allow_http),
        Dispatcher(
            f,
            subscribers,
            HttpSender(connect, clock, timeout_seconds=webhooks.timeout),
            Leases(f.meta, clock),
            f"{socket.gethostname()}:{os.getpid()}",
            random.SystemRandom(),
            max_attempts=webhooks.max_attempts,
        ),
    )


def read_listeners(stated: ListenersSettings, clock: Clock) -> list[Listener]:
    """The listeners of the settings, in the order in which they are asked. Raises InvalidSetting."""
    found = [load_listener(name) for name in stated.python]
    if stated.hooks:
        threads = ThreadPoolExecutor(HOOKS_AT_ONCE, thread_name_prefix="hooks")
        for name, hook in stated.hooks.items():
            policy = HookPolicy(
                url=hook.url,
                secret=hook.secret,
                operations=parse_operations(hook.operations),
                timeout_seconds=hook.timeout,
                on_failure=OnFailure(hook.on_failure),
                sends_documents=hook.send_documents,
            )
            bundle = None if hook.ca_bundle is None else str(hook.ca_bundle)
            found.append(HttpHook(name, policy, blocking_http(bundle, threads), clock))
    return found


def read_subscribers(stated: WebhooksSettings) -> dict[str, Subscriber]:
    """The subscribers of the settings. Raises InvalidSetting by its path."""
    found: dict[str, Subscriber] = {}
    for name, one in stated.subscribers.items():
        try:
            selection = parse_selection(",".join(one.kinds))
        except InvalidInput as error:
            path = f"webhooks.subscribers.{name}.kinds"
            raise InvalidSetting(f"{path}: {error}", argument=path) from error
        bundle = None if one.ca_bundle is None else str(one.ca_bundle)
        found[name] = Subscriber(name, one.url, one.secret, one.kinds, selection, Origin.SETTINGS, bundle)
    return found

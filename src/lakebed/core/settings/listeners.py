"""Settings of operation listeners and event targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from ..secrets import Secret
from .kinds import SECONDS, Within

NO_SECRET: Final = Secret("")


class HookFailure(StrEnum):
    """Outcome of an operation whose hook fails."""

    REFUSE = "refuse"
    """The operation is refused with 503."""

    ALLOW = "allow"
    """The operation proceeds."""


@dataclass(frozen=True, slots=True)
class ListenerHook:
    """An HTTP hook that can veto operations."""

    url: str = ""
    secret: Secret = NO_SECRET
    """Signing secret of its requests: `whsec_` and base64 of 24 to 64 bytes."""

    operations: tuple[str, ...] = ("*",)
    """Operations: names, prefixes followed by `*`, or families such as `POLICY`."""

    timeout: Annotated[float, SECONDS, Within(0.01, 30)] = 5.0
    on_failure: HookFailure = HookFailure.REFUSE
    send_documents: bool = False
    """Send the request document, unless it can hold secrets."""

    ca_bundle: Path | None = None
    """CA certificates for the hook, in place of the system's."""


@dataclass(frozen=True, slots=True)
class ListenersSettings:
    """Listeners that can veto operations before they begin."""

    python: tuple[str, ...] = ()
    """Listeners that run in the server: `package.module:attribute`, or names of entry points of installed packages."""

    hooks: Mapping[str, ListenerHook] = field(default_factory=dict)
    """By name: `[listeners.hooks.NAME]`. Called after those in Python."""

    after_reads: tuple[str, ...] = ()
    """Reading operations that emit an event: each costs a commit."""

    allow_http: bool = False
    """Allow plain HTTP to hooks on other machines."""


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """An event target."""

    type: str = ""
    """The target type, such as `webhook`."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the target type; strings are treated as secrets and not shown."""

    kinds: tuple[str, ...] = ()
    """Event kinds it subscribes to, in addition to bucket notification rules: kinds or `AFTER_` names of operations, or
    prefixes of them followed by `*`."""

    subject: str = ""
    """Only events about this subject, or one in it."""

    audit: bool = False
    """Also send audit events."""

    requests: bool = False
    """Also send a request audit record for every request."""

    form: str = ""
    """The event format."""

    paused: bool = False
    """Pause delivery; undelivered events are kept."""


@dataclass(frozen=True, slots=True)
class TargetsSettings:
    """Event delivery to targets."""

    named: Mapping[str, TargetEntry] = field(default_factory=dict)
    """By name: `[targets.named.NAME]`. The API can add more."""

    timeout: Annotated[float, SECONDS, Within(0.01, 60)] = 10.0
    """Response timeout of webhooks."""

    max_attempts: Annotated[int, Within(1, 1000)] = 50
    """Delivery attempts before an event goes to the dead-letter queue. The backoff doubles up to five minutes: fifty
    attempts take about four hours."""

    rules_per_bucket: Annotated[int, Within(1, 10_000)] = 100
    """Most rules in the notification configuration of a bucket; 100 in Amazon S3."""

    requests_kept: Annotated[int, Within(1, 1_000_000_000)] = 1_000_000
    """Request audit records kept for an unavailable target; a million are about a gigabyte. The oldest are dropped
    first."""

    allow_http: bool = False
    """Allow plain HTTP to webhooks on other machines."""

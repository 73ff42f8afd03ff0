"""The part of the tree that is about operations: who is asked before them, and who is told what came of them."""

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
    """What happens to an operation about which a hook did not answer."""

    REFUSE = "refuse"
    """It does not happen: 503."""

    ALLOW = "allow"
    """It happens, as if the hook had no objection."""


@dataclass(frozen=True, slots=True)
class ListenerHook:
    """Somebody who is asked over HTTP, and answers whether an operation may happen."""

    url: str = ""
    secret: Secret = NO_SECRET
    """What requests to it are signed with: `whsec_` and base64 of 24 to 64 bytes."""

    operations: tuple[str, ...] = ("*",)
    """Which operations: names, beginnings followed by `*`, or families such as `POLICY`."""

    timeout: Annotated[float, SECONDS, Within(0.01, 30)] = 5.0
    on_failure: HookFailure = HookFailure.REFUSE
    send_documents: bool = False
    """Show it the request's own document, where that holds no secrets."""

    ca_bundle: Path | None = None
    """Certificates of the authorities that vouch for it, in place of the system's."""


@dataclass(frozen=True, slots=True)
class ListenersSettings:
    """Who is asked before operations, and may veto them."""

    python: tuple[str, ...] = ()
    """Listeners that run in the server: `package.module:attribute`, or names of entry points of installed packages."""

    hooks: Mapping[str, ListenerHook] = field(default_factory=dict)
    """By names of your choice: `[listeners.hooks.NAME]`. Asked behind those in Python."""

    after_reads: tuple[str, ...] = ()
    """Operations that only read, of which events are written all the same: each costs a commit."""

    allow_http: bool = False
    """Ask hooks by plain HTTP, beyond this machine too."""


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """Somewhere that events go."""

    type: str = ""
    """What kind of server it is: `webhook`, say."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """What a target of that type has to be told; texts are taken for secrets, and not shown."""

    kinds: tuple[str, ...] = ()
    """Which events it is sent, besides what bucket rules have sent to it: names of kinds or `AFTER_` names of
    operations, or beginnings of them followed by `*`."""

    subject: str = ""
    """Of those kinds, what is about this, or in it."""

    audit: bool = False
    """Send it what the audit trail is made of, too."""

    requests: bool = False
    """Send it an entry of an audit log for every request, too."""

    form: str = ""
    """What events look like to it."""

    paused: bool = False
    """Send it nothing for now, and keep what it has not had."""


@dataclass(frozen=True, slots=True)
class TargetsSettings:
    """Events that are sent to others."""

    named: Mapping[str, TargetEntry] = field(default_factory=dict)
    """By names of your choice: `[targets.named.NAME]`. Others may be added by the API."""

    timeout: Annotated[float, SECONDS, Within(0.01, 60)] = 10.0
    """How long a receiver of webhooks may take to answer."""

    max_attempts: Annotated[int, Within(1, 1000)] = 50
    """After that many an event is a dead letter. Pauses double, up to five minutes: fifty take about four hours."""

    rules_per_bucket: Annotated[int, Within(1, 10_000)] = 100
    """How many rules the notification configuration of a bucket has at most; 100 with Amazon's S3."""

    requests_kept: Annotated[int, Within(1, 1_000_000_000)] = 1_000_000
    """How many requests are kept for a target that is sent every request and takes none: a million are about a
    gigabyte. It loses what is beyond, oldest first."""

    allow_http: bool = False
    """Post webhooks by plain HTTP, beyond this machine too."""

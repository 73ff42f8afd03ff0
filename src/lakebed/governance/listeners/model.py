"""What a listener is told of an operation before it begins, and what a listener is."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lakebed.core.operations import Operation


@dataclass(frozen=True, slots=True)
class Intent:
    """An operation that somebody has asked for, and that has not begun."""

    operation: Operation
    event_id: str
    occurred_ms: int
    principal: str
    """Who asks, by name. Whether they may is not decided yet."""
    principal_arn: str
    request_id: str
    source_ip: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    """What it is done to: a table, view, policy, user or role, and nothing for what has no name yet."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else is said of it by name: where a table is renamed to, which privilege is granted."""
    document: bytes = field(default=b"", repr=False)
    """The request's own document, JSON; empty where it may hold secrets, or there is none."""

    @property
    def subject(self) -> str:
        """What it is about, as the events that come of it have it."""
        return "/".join(part for part in (self.catalog, ".".join(self.namespace), self.name) if part)

    def described(self) -> dict[str, Any]:
        """All but the document, for those who are told in JSON."""
        return {
            "event-type": self.operation.before,
            "event-id": self.event_id,
            "occurred-ms": self.occurred_ms,
            "principal": self.principal,
            "principal-arn": self.principal_arn,
            "request-id": self.request_id,
            "source-ip": self.source_ip,
            "catalog": self.catalog,
            "namespace": self.namespace,
            "name": self.name,
            "subject": self.subject,
            "facts": dict(self.facts),
        }


class Listener(Protocol):
    """Somebody who is asked before operations."""

    @property
    def name(self) -> str:
        """What refusals call it."""
        ...

    @property
    def operations(self) -> frozenset[Operation]:
        """Which operations it wants to be asked about."""
        ...

    async def before(self, intent: Intent) -> str | None:
        """None to let it happen; otherwise the reason why not, which whoever asked is told.

        Raises Unavailable when it cannot decide: then the operation does not happen either, and may be tried again.
        """
        ...


@runtime_checkable
class PlainListener(Protocol):
    """What a package of somebody else's has to offer to be a listener: one method, plain or asynchronous.

    It may have `operations` besides, a list of names or of beginnings followed by `*`; without, it is asked about all.
    """

    def before(self, intent: Intent) -> str | Awaitable[str | None] | None:
        """None to let it happen; otherwise the reason why not. A plain one must not take long: all requests wait."""
        ...

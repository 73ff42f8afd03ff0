"""The interface of listeners, and the operations that they are called with."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lakebed.core.operations import Operation


@dataclass(frozen=True, slots=True)
class Intent:
    """A requested operation that has not begun."""

    operation: Operation
    event_id: str
    occurred_ms: int
    principal: str
    """The caller's name. Authorization has not been decided."""
    principal_arn: str
    request_id: str
    source_ip: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    """The subject: a table, view, policy, user or role. Empty if it has no name yet."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further properties by name, such as a rename's target or a granted privilege."""
    document: bytes = field(default=b"", repr=False)
    """The request document as JSON; empty if there is none or it may contain secrets."""

    @property
    def subject(self) -> str:
        """The subject as in the resulting events."""
        return "/".join(part for part in (self.catalog, ".".join(self.namespace), self.name) if part)

    def described(self) -> dict[str, Any]:
        """All but the document, in the form of the hook's JSON."""
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
    """Called before operations."""

    @property
    def name(self) -> str:
        """The listener's name in errors."""
        ...

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations that it is called for."""
        ...

    async def before(self, intent: Intent) -> str | None:
        """None to allow the operation, or the reason of the veto, which is returned to the client.

        Raises Unavailable if it cannot decide: the operation is refused too, and the client may retry.
        """
        ...


@runtime_checkable
class PlainListener(Protocol):
    """The interface of third-party listeners: one method, synchronous or asynchronous.

    They may have `operations`, a list of names or of prefixes followed by `*`; the default is all.
    """

    def before(self, intent: Intent) -> str | Awaitable[str | None] | None:
        """None to allow the operation, or the reason of the veto. A synchronous method blocks all requests."""
        ...

"""Event selections: filters by kind, operation, subject and principal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.meta.outbox import OutboxEvent

from .documents import payload_text

MAX_PATTERNS: Final = 100

_WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class EventSelection:
    """A filter of events. Empty fields match everything."""

    names: frozenset[str] = frozenset()
    """Event kinds, or `AFTER_` names of operations."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of such names."""
    subject: str = ""
    """The subject or a parent of it: `lake/sales` matches `lake/sales/orders` and not `lake/sales2`."""
    principal: str = ""
    """The principal in the event's payload."""

    def matches(self, event: OutboxEvent) -> bool:
        """Whether the selection includes an event."""
        if self.subject and event.subject != self.subject and not event.subject.startswith(self.subject + "/"):
            return False
        if (self.names or self.prefixes) and not (self._names(event.kind) or self._names(event.type)):
            return False
        return not self.principal or payload_text(event.payload, "principal") == self.principal

    def names_kind(self, kind: str) -> bool:
        """Whether a name or a non-empty prefix matches a kind: `*` names no kind."""
        return "" not in self.prefixes and self._names(kind)

    @property
    def matches_all(self) -> bool:
        """Whether the selection includes every event."""
        if self.subject or self.principal:
            return False
        return "" in self.prefixes or not (self.names or self.prefixes)

    def _names(self, name: str) -> bool:
        return bool(name) and (name in self.names or name.startswith(self.prefixes))


ALL_EVENTS: Final = EventSelection()


def parse_selection(text: str, *, subject: str = "", principal: str = "") -> EventSelection:
    """Parse comma-separated names; a name that ends in `*` is a prefix. Raises InvalidInput."""
    patterns = text.split(",")
    if len(patterns) > MAX_PATTERNS:
        raise InvalidInput(f"too many event kinds. found={len(patterns)} maximum={MAX_PATTERNS}", argument="kind")
    names: set[str] = set()
    prefixes: set[str] = set()
    for pattern in patterns:
        stem = pattern.removesuffix(_WILDCARD)
        if not pattern or _WILDCARD in stem:
            raise InvalidInput(
                "kind must be a comma-separated list of names, each with an optional trailing *",
                argument="kind",
                value=text,
            )
        if stem == pattern:
            names.add(pattern)
        else:
            prefixes.add(stem)
    return EventSelection(frozenset(names), tuple(sorted(prefixes)), subject, principal)

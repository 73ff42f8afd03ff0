"""Which events a reader asks for: by kind, by the operation that they came of, by subject, by who did it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.meta.outbox import OutboxEvent

from .documents import payload_text

MAX_WORDS: Final = 100

_ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Some events. Nothing named is everything."""

    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()
    """Kinds of events, or `AFTER_` names of operations, and how such names begin."""
    subject: str = ""
    """What they are about, or what that is in: `lake/sales` takes `lake/sales/orders` and not `lake/sales2`."""
    principal: str = ""
    """Who did it, as the event names them."""

    def matches(self, event: OutboxEvent) -> bool:
        """Whether an event is asked for."""
        if self.subject and event.subject != self.subject and not event.subject.startswith(self.subject + "/"):
            return False
        if (self.names or self.beginnings) and not (self._names(event.kind) or self._names(event.type)):
            return False
        return not self.principal or payload_text(event.payload, "principal") == self.principal

    def names_kind(self, kind: str) -> bool:
        """Whether events of a kind are asked for by name, and not with all others."""
        return "" not in self.beginnings and self._names(kind)

    @property
    def is_everything(self) -> bool:
        """Whether no event is left out."""
        if self.subject or self.principal:
            return False
        return "" in self.beginnings or not (self.names or self.beginnings)

    def _names(self, name: str) -> bool:
        return bool(name) and (name in self.names or name.startswith(self.beginnings))


EVERYTHING: Final = EventSelection()


def parse_selection(text: str, *, subject: str = "", principal: str = "") -> EventSelection:
    """Words with commas between them; one that ends in `*` is a beginning. Raises InvalidInput."""
    words = text.split(",")
    if len(words) > MAX_WORDS:
        raise InvalidInput(f"too many kinds of events. found={len(words)} maximum={MAX_WORDS}", argument="kind")
    names: set[str] = set()
    beginnings: set[str] = set()
    for word in words:
        stem = word.removesuffix(_ANYTHING)
        if not word or _ANYTHING in stem:
            raise InvalidInput(
                "kind is a list of names with commas between them; a name may end in *", argument="kind", value=text
            )
        if stem == word:
            names.add(word)
        else:
            beginnings.add(stem)
    return EventSelection(frozenset(names), tuple(sorted(beginnings)), subject, principal)

"""Which events a reader asks for: names of kinds, or beginnings of names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput

MAX_WORDS: Final = 100

_ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class Selection:
    """Kinds of events. Nothing named is everything."""

    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def takes(self, kind: str) -> bool:
        """Whether an event of that kind is asked for."""
        if not self.names and not self.beginnings:
            return True
        return kind in self.names or kind.startswith(self.beginnings)

    @property
    def is_everything(self) -> bool:
        """Whether no kind is left out."""
        return "" in self.beginnings or not (self.names or self.beginnings)


EVERYTHING: Final = Selection()


def parse_selection(text: str) -> Selection:
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
    return Selection(frozenset(names), tuple(sorted(beginnings)))

"""Rules made ready for events: what no rule names costs one look at a mask. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from ..names import EventName
from .model import NotificationConfiguration, decode_configuration
from .patterns import KeyPattern, pattern_of

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class _Ready(NamedTuple):
    number: int
    """Its place among all: the first rule that names a target is told."""
    mask: int
    pattern: KeyPattern
    target_id: str
    rule_id: str


class CompiledRules:
    """The rules of one configuration.

    Rules are found by how their keys begin, with one look for every length of beginnings that there is: a thousand
    rules for a thousand folders cost about what one does.
    """

    __slots__ = ("_by_head", "_lengths", "mask")

    def __init__(self, configuration: NotificationConfiguration) -> None:
        self.mask = configuration.mask
        """The bits of all events that any rule names."""
        self._by_head: dict[str, list[_Ready]] = {}
        for number, rule in enumerate(configuration.rules):
            pattern = KeyPattern.of(pattern_of(rule.prefix, rule.suffix))
            ready = _Ready(number, rule.mask, pattern, rule.target_id, rule.id)
            self._by_head.setdefault(pattern.head, []).append(ready)
        self._lengths: Sequence[int] = sorted({len(head) for head in self._by_head})

    def matches(self, name: EventName, key: str) -> Mapping[str, str]:
        """Who is sent an event of a key: by target, the id of the first rule that says so."""
        mask = name.mask
        if not self.mask & mask:
            return NOTHING
        found: dict[str, _Ready] = {}
        for length in self._lengths:
            if length > len(key):
                break
            for ready in self._by_head.get(key[:length], ()):
                if ready.mask & mask and ready.pattern.matches(key):
                    before = found.get(ready.target_id)
                    if before is None or ready.number < before.number:
                        found[ready.target_id] = ready
        return {target: ready.rule_id for target, ready in found.items()}


@lru_cache(maxsize=1024)
def compiled(document: bytes | None) -> CompiledRules:
    """The rules of a stored configuration; the same bytes are made ready once."""
    return CompiledRules(decode_configuration(document))

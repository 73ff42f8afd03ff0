"""Rules made ready for events: what no rule names costs one look at a mask. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from ..names import EventName
from .model import Configuration, decode_configuration
from .patterns import matches, pattern_of

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class _Ready(NamedTuple):
    mask: int
    pattern: str
    target_id: str
    rule_id: str


class CompiledRules:
    """The rules of one configuration."""

    __slots__ = ("_ready", "mask")

    def __init__(self, configuration: Configuration) -> None:
        self.mask = configuration.mask
        """The bits of all events that any rule names."""
        self._ready: Sequence[_Ready] = [
            _Ready(rule.mask, pattern_of(rule.prefix, rule.suffix), rule.target_id, rule.id)
            for rule in configuration.rules
        ]

    def matches(self, name: EventName, key: str) -> Mapping[str, str]:
        """Who is sent an event of a key: by target, the id of the first rule that says so."""
        if not self.mask & name.mask:
            return NOTHING
        found: dict[str, str] = {}
        for ready in self._ready:
            if ready.mask & name.mask and ready.target_id not in found and matches(ready.pattern, key):
                found[ready.target_id] = ready.rule_id
        return found


@lru_cache(maxsize=1024)
def compiled(document: bytes | None) -> CompiledRules:
    """The rules of a stored configuration; the same bytes are made ready once."""
    return CompiledRules(decode_configuration(document))

"""Compiled rules: an event that no rule selects costs one test of a mask. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from ..names import EventName
from .model import NotificationConfiguration, decode_configuration
from .patterns import KeyPattern, pattern_of

NO_MATCHES: Final[Mapping[str, str]] = MappingProxyType({})


class _CompiledRule(NamedTuple):
    number: int
    """Its position: of several rules for one target, the first is reported."""
    mask: int
    pattern: KeyPattern
    target_id: str
    rule_id: str


class CompiledRules:
    """The rules of one configuration.

    Rules are indexed by the literal prefix of their patterns, with one lookup per prefix length: a thousand rules for a
    thousand folders cost about as much as one.
    """

    __slots__ = ("_by_head", "_lengths", "mask")

    def __init__(self, configuration: NotificationConfiguration) -> None:
        self.mask = configuration.mask
        """The bits of all events in the rules."""
        self._by_head: dict[str, list[_CompiledRule]] = {}
        for number, rule in enumerate(configuration.rules):
            pattern = KeyPattern.of(pattern_of(rule.prefix, rule.suffix))
            compiled_rule = _CompiledRule(number, rule.mask, pattern, rule.target_id, rule.id)
            self._by_head.setdefault(pattern.head, []).append(compiled_rule)
        self._lengths: Sequence[int] = sorted({len(head) for head in self._by_head})

    def matches(self, name: EventName, key: str) -> Mapping[str, str]:
        """The targets of an event on a key, each with the id of the first rule that names it."""
        mask = name.mask
        if not self.mask & mask:
            return NO_MATCHES
        found: dict[str, _CompiledRule] = {}
        for length in self._lengths:
            if length > len(key):
                break
            for rule in self._by_head.get(key[:length], ()):
                if rule.mask & mask and rule.pattern.matches(key):
                    earlier = found.get(rule.target_id)
                    if earlier is None or rule.number < earlier.number:
                        found[rule.target_id] = rule
        return {target: rule.rule_id for target, rule in found.items()}


@lru_cache(maxsize=1024)
def compiled(document: bytes | None) -> CompiledRules:
    """The compiled rules of a stored configuration, cached."""
    return CompiledRules(decode_configuration(document))

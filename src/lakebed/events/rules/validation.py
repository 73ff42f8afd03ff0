"""Validation of notification configurations, except for the existence of targets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput

from .arns import parse_arn
from .model import NotificationConfiguration, NotificationRule
from .patterns import ends_of, pattern_of

MAX_RULES: Final = 100
"""S3's limit."""
MAX_ID_CHARS: Final = 255
MAX_FILTER_BYTES: Final = 1024


def check_configuration(configuration: NotificationConfiguration, region: str, *, max_rules: int = MAX_RULES) -> None:
    """Return if the configuration is valid in the server's region. Raises InvalidInput."""
    rules = configuration.rules
    if len(rules) > max_rules:
        raise InvalidInput(
            f"A bucket has at most {max_rules} notification configurations.", argument="QueueConfiguration"
        )
    ids: set[str] = set()
    for rule in rules:
        _check_rule(rule, region)
        if rule.id in ids:
            raise InvalidInput("Two configurations have the same Id.", argument="Id", value=rule.id[:200])
        ids.add(rule.id)
    overlap = find_overlap(rules)
    if overlap is not None:
        raise InvalidInput(
            "Configurations overlap: both would send the same event of the same key to one destination."
            f" Id={overlap[0].id[:200]} Id={overlap[1].id[:200]}",
            argument="Filter",
        )


class _Scope(NamedTuple):
    """The scope of a rule. Sorting puts a head directly before the heads that start with it."""

    target_id: str
    head: str
    tail: str
    mask: int
    number: int

    def contains_head_of(self, other: _Scope) -> bool:
        return self.target_id == other.target_id and other.head.startswith(self.head)

    def overlaps(self, other: _Scope) -> bool:
        return bool(self.mask & other.mask) and (self.tail.endswith(other.tail) or other.tail.endswith(self.tail))


def find_overlap(rules: Sequence[NotificationRule]) -> tuple[NotificationRule, NotificationRule] | None:
    """Two rules that could send one event to the same target, or None.

    S3 rejects overlaps for different destinations too. Here, as in MinIO, every destination needs its own rule. Each
    rule is compared only with rules whose literal prefix starts its own.
    """
    scopes = []
    for number, rule in enumerate(rules):
        head, tail = ends_of(pattern_of(rule.prefix, rule.suffix))
        scopes.append(_Scope(rule.target_id, head, tail, rule.mask, number))
    enclosing: list[_Scope] = []
    for scope in sorted(scopes):
        while enclosing and not enclosing[-1].contains_head_of(scope):
            enclosing.pop()
        for other in enclosing:
            if other.overlaps(scope):
                first, second = sorted((scope.number, other.number))
                return rules[first], rules[second]
        enclosing.append(scope)
    return None


def _check_rule(rule: NotificationRule, region: str) -> None:
    if not rule.id or len(rule.id) > MAX_ID_CHARS:
        raise InvalidInput(f"An Id has 1 to {MAX_ID_CHARS} characters.", argument="Id", value=rule.id[:200])
    arn = parse_arn(rule.arn)
    if arn.region not in ("", region):
        raise InvalidInput(
            "The destination is in another region than the bucket.", argument="Queue", value=rule.arn[:200]
        )
    if not rule.events:
        raise InvalidInput("A configuration names at least one event.", argument="Event")
    if len(set(rule.events)) != len(rule.events):
        raise InvalidInput("A configuration names an event twice.", argument="Event")
    check_filter_value("prefix", rule.prefix)
    check_filter_value("suffix", rule.suffix)


def check_filter_value(name: str, value: str | None) -> None:
    """Return if a prefix or suffix is valid. Raises InvalidInput."""
    if value is None:
        return
    if len(value.encode("utf-8", "replace")) > MAX_FILTER_BYTES:
        raise InvalidInput(
            f"The value of a filter has at most {MAX_FILTER_BYTES} bytes.", argument=name, value=value[:200]
        )
    if "\\" in value or not {".", ".."}.isdisjoint(value.split("/")):
        raise InvalidInput(
            "The value of a filter must not contain a backslash, or . or .. as a path segment.",
            argument=name,
            value=value[:200],
        )

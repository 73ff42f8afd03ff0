"""What a notification configuration has to be like. Pure; whether its targets exist only the store knows."""

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
    """Return if it may be put on a bucket of a server in that region. Raises InvalidInput."""
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
    both = first_ambiguous(rules)
    if both is not None:
        raise InvalidInput(
            "Configurations overlap: the same event of the same key would go to one destination by both."
            f" Id={both[0].id[:200]} Id={both[1].id[:200]}",
            argument="Filter",
        )


class _Reach(NamedTuple):
    """What a rule takes: in the order of these, those whose heads begin with another's come right behind it."""

    target_id: str
    head: str
    tail: str
    mask: int
    number: int

    def contains_head_of(self, other: _Reach) -> bool:
        return self.target_id == other.target_id and other.head.startswith(self.head)

    def meets(self, other: _Reach) -> bool:
        return bool(self.mask & other.mask) and (self.tail.endswith(other.tail) or other.tail.endswith(self.tail))


def first_ambiguous(rules: Sequence[NotificationRule]) -> tuple[NotificationRule, NotificationRule] | None:
    """Two rules that could both send one event to one target, if there are some.

    S3 refuses this for different destinations too, and has other means to reach several; here each of them has its
    own rule, as with MinIO. A rule is compared with those alone whose keys begin as its own do.
    """
    reaches = []
    for number, rule in enumerate(rules):
        head, tail = ends_of(pattern_of(rule.prefix, rule.suffix))
        reaches.append(_Reach(rule.target_id, head, tail, rule.mask, number))
    around: list[_Reach] = []
    for one in sorted(reaches):
        while around and not around[-1].contains_head_of(one):
            around.pop()
        for other in around:
            if other.meets(one):
                first, second = sorted((one.number, other.number))
                return rules[first], rules[second]
        around.append(one)
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
    """Return if a prefix or suffix can be asked for. Raises InvalidInput."""
    if value is None:
        return
    if len(value.encode("utf-8", "replace")) > MAX_FILTER_BYTES:
        raise InvalidInput(
            f"The value of a filter has at most {MAX_FILTER_BYTES} bytes.", argument=name, value=value[:200]
        )
    if "\\" in value or not {".", ".."}.isdisjoint(value.split("/")):
        raise InvalidInput(
            "The value of a filter has no backslash, and no . or .. between its slashes.",
            argument=name,
            value=value[:200],
        )

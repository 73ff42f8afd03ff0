"""What a notification configuration has to be like. Pure; whether its targets exist only the store knows."""

from __future__ import annotations

from itertools import combinations
from typing import Final

from lakebed.core.errors import InvalidInput

from .arns import parse_arn
from .model import Configuration, Rule
from .patterns import overlap, pattern_of

MAX_RULES: Final = 100
MAX_ID_CHARS: Final = 255
MAX_FILTER_BYTES: Final = 1024


def check_configuration(configuration: Configuration, region: str) -> None:
    """Return if it may be put on a bucket of a server in that region. Raises InvalidInput."""
    rules = configuration.rules
    if len(rules) > MAX_RULES:
        raise InvalidInput(
            f"A bucket has at most {MAX_RULES} notification configurations.", argument="QueueConfiguration"
        )
    ids: set[str] = set()
    for rule in rules:
        _check_rule(rule, region)
        if rule.id in ids:
            raise InvalidInput("Two configurations have the same Id.", argument="Id", value=rule.id[:200])
        ids.add(rule.id)
    for one, other in combinations(rules, 2):
        if are_ambiguous(one, other):
            raise InvalidInput(
                "Configurations overlap: the same event of the same key would go to one destination by both."
                f" Id={one.id[:200]} Id={other.id[:200]}",
                argument="Filter",
            )


def are_ambiguous(one: Rule, other: Rule) -> bool:
    """Whether both could send one event to one target.

    S3 refuses this for different destinations too, and has other means to reach several; here each of them has its
    own rule, as with MinIO.
    """
    return (
        bool(one.mask & other.mask)
        and one.target_id == other.target_id
        and overlap(pattern_of(one.prefix, one.suffix), pattern_of(other.prefix, other.suffix))
    )


def _check_rule(rule: Rule, region: str) -> None:
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

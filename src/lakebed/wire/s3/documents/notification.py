"""Notification configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.events.names import parse_name
from lakebed.events.rules import NotificationConfiguration, NotificationRule

from ..xml import MalformedDocument, XmlElement, document, escape, parse_document
from ._parts import optional

__all__ = ["read_notification", "write_notification"]

_QUEUE: Final = "QueueConfiguration"
_UNSUPPORTED: Final = ("TopicConfiguration", "CloudFunctionConfiguration", "EventBridgeConfiguration")
"""Destinations that are AWS services."""


def read_notification(body: bytes, new_id: Callable[[], str]) -> NotificationConfiguration:
    """NotificationConfiguration, possibly without rules; rules without an id get a new one.

    Raises MalformedDocument, InvalidInput.
    """
    root = parse_document(body, "NotificationConfiguration").only(_QUEUE, *_UNSUPPORTED)
    for child in root.children:
        if child.name in _UNSUPPORTED:
            raise InvalidInput(f"{child.name} is not supported", argument="notification-destination", value=child.name)
    return NotificationConfiguration(tuple(_read_rule(element, new_id) for element in root.children))


def _read_rule(element: XmlElement, new_id: Callable[[], str]) -> NotificationRule:
    element.only("Id", "Queue", "Event", "Filter")
    events = tuple(parse_name(event.text.strip()) for event in element.all("Event"))
    if not events:
        raise MalformedDocument("queue configuration has no event")
    prefix, suffix = _read_filter(element.optional("Filter"))
    return NotificationRule(
        id=element.optional_text("Id") or new_id(),
        arn=element.text_of("Queue").strip(),
        events=events,
        prefix=prefix,
        suffix=suffix,
    )


def _read_filter(element: XmlElement | None) -> tuple[str | None, str | None]:
    key = None if element is None else element.only("S3Key").optional("S3Key")
    if key is None:
        return None, None
    # Some clients wrap the rules in a FilterRuleList.
    wrapped = key.only("FilterRule", "FilterRuleList").optional("FilterRuleList")
    values: dict[str, str] = {}
    for rule in (key if wrapped is None else wrapped.only("FilterRule")).children:
        if rule.name == "FilterRuleList":
            raise MalformedDocument("filter rules are both inside and outside of a FilterRuleList")
        name, value = rule.only("Name", "Value").optional_text("Name"), rule.optional_text("Value")
        if name is None or value is None:
            raise InvalidInput("A filter rule requires a Name and a Value.", argument="FilterRule")
        kind = name.strip().lower()
        if kind not in ("prefix", "suffix"):
            raise InvalidInput(
                "filter rule name must be either prefix or suffix", argument="FilterRule.Name", value=name[:100]
            )
        if kind in values:
            raise InvalidInput(
                f"Cannot specify more than one {kind} rule in a filter.", argument="FilterRule.Name", value=name[:100]
            )
        values[kind] = value
    return values.get("prefix"), values.get("suffix")


def write_notification(configuration: NotificationConfiguration) -> bytes:
    """NotificationConfiguration."""
    return document("NotificationConfiguration", "".join([_rule_element(rule) for rule in configuration.rules]))


def _rule_element(rule: NotificationRule) -> str:
    events = "".join(f"<Event>{name.value}</Event>" for name in rule.events)
    values = "".join(
        f"<FilterRule><Name>{name}</Name>{optional('Value', value)}</FilterRule>"
        for name, value in (("prefix", rule.prefix), ("suffix", rule.suffix))
        if value is not None
    )
    filtered = f"<Filter><S3Key>{values}</S3Key></Filter>" if values else ""
    return f"<{_QUEUE}><Id>{escape(rule.id)}</Id><Queue>{escape(rule.arn)}</Queue>{events}{filtered}</{_QUEUE}>"

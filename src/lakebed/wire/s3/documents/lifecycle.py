"""Lifecycle configurations, and the `x-amz-expiration` header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from lakebed.core.errors import NotSupported
from lakebed.objects.config.expiry import Expiry
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.wire.aws.timestamps import http_time, iso_time

from ..xml import MalformedDocument, XmlElement, document, escape, parse_document
from ._parts import boolean, optional, optional_int
from .tagging import read_tag, tag_elements

__all__ = ["expiration_header", "read_lifecycle", "write_lifecycle"]

_MAX_ELEMENTS: Final = 100_000
"""Enough for 1,000 rules with many tags each."""

_TRANSITIONS: Final = ("Transition", "NoncurrentVersionTransition")
_CONDITIONS: Final = ("Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan")


def read_lifecycle(body: bytes, new_id: Callable[[], str]) -> LifecycleConfiguration:
    """LifecycleConfiguration; rules without an id get a new one.

    Raises MalformedDocument, InvalidInput, InvalidTag, and NotSupported for transitions to other storage classes.
    """
    root = parse_document(body, "LifecycleConfiguration", max_elements=_MAX_ELEMENTS).only("Rule")
    if not root.children:
        raise MalformedDocument("lifecycle configuration has no rules")
    return LifecycleConfiguration(tuple(_read_rule(element, new_id) for element in root.children))


def _read_rule(rule: XmlElement, new_id: Callable[[], str]) -> LifecycleRule:
    rule.only(
        "ID",
        "Prefix",
        "Filter",
        "Status",
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
        *_TRANSITIONS,
    )
    if any(child.name in _TRANSITIONS for child in rule.children):
        raise NotSupported("lifecycle transitions to other storage classes are not supported")
    status = rule.text_of("Status")
    if status not in ("Enabled", "Disabled"):
        raise MalformedDocument(f"status must be Enabled or Disabled. value={status[:100]!r}")
    prefix, filter_element = rule.optional_text("Prefix"), rule.optional("Filter")
    if (prefix is None) == (filter_element is None):
        raise MalformedDocument("rule requires either a filter or a prefix")
    expiration = rule.optional("Expiration")
    noncurrent = rule.optional("NoncurrentVersionExpiration")
    abort = rule.optional("AbortIncompleteMultipartUpload")
    return LifecycleRule(
        id=rule.optional_text("ID") or new_id(),
        enabled=status == "Enabled",
        filter=LifecycleFilter(prefix) if filter_element is None else _read_filter(filter_element),
        expiration=None if expiration is None else _read_expiration(expiration),
        noncurrent=None if noncurrent is None else _read_noncurrent(noncurrent),
        abort_uploads_after_days=(
            None if abort is None else abort.only("DaysAfterInitiation").int_of("DaysAfterInitiation")
        ),
        has_legacy_prefix=filter_element is None,
    )


def _read_filter(element: XmlElement) -> LifecycleFilter:
    if len(element.children) > 1:
        raise MalformedDocument("filter with more than one condition requires And")
    both = element.only("And", *_CONDITIONS).optional("And")
    if both is not None and not both.only(*_CONDITIONS).children:
        raise MalformedDocument("And of a filter is empty")
    conditions = element if both is None else both
    return LifecycleFilter(
        prefix=conditions.optional_text("Prefix"),
        tags=tuple(read_tag(tag) for tag in conditions.all("Tag")),
        larger_than_bytes=conditions.optional_int("ObjectSizeGreaterThan"),
        smaller_than_bytes=conditions.optional_int("ObjectSizeLessThan"),
    )


def _read_expiration(element: XmlElement) -> Expiration:
    element.only("Days", "Date", "ExpiredObjectDeleteMarker")
    if len(element.children) != 1:
        raise MalformedDocument("expiration requires exactly one of Days, Date and ExpiredObjectDeleteMarker")
    return Expiration(
        days=element.optional_int("Days"),
        at_ms=element.optional_time("Date"),
        delete_markers=element.optional_bool("ExpiredObjectDeleteMarker"),
    )


def _read_noncurrent(element: XmlElement) -> NoncurrentExpiration:
    element.only("NoncurrentDays", "NewerNoncurrentVersions")
    return NoncurrentExpiration(element.int_of("NoncurrentDays"), element.optional_int("NewerNoncurrentVersions"))


def write_lifecycle(config: LifecycleConfiguration) -> bytes:
    """LifecycleConfiguration."""
    return document("LifecycleConfiguration", "".join([_rule_element(rule) for rule in config.rules]))


def _rule_element(rule: LifecycleRule) -> str:
    scope = optional("Prefix", rule.filter.prefix) if rule.has_legacy_prefix else _filter_element(rule.filter)
    parts = [f"<ID>{escape(rule.id)}</ID>", scope, f"<Status>{'Enabled' if rule.enabled else 'Disabled'}</Status>"]
    if rule.expiration is not None:
        parts.append(_expiration_element(rule.expiration))
    if rule.noncurrent is not None:
        kept = optional_int("NewerNoncurrentVersions", rule.noncurrent.keep_newest)
        parts.append(
            "<NoncurrentVersionExpiration>"
            f"<NoncurrentDays>{rule.noncurrent.days}</NoncurrentDays>{kept}"
            "</NoncurrentVersionExpiration>"
        )
    if rule.abort_uploads_after_days is not None:
        parts.append(
            "<AbortIncompleteMultipartUpload>"
            f"<DaysAfterInitiation>{rule.abort_uploads_after_days}</DaysAfterInitiation>"
            "</AbortIncompleteMultipartUpload>"
        )
    return f"<Rule>{''.join(parts)}</Rule>"


def _filter_element(conditions: LifecycleFilter) -> str:
    content = (
        optional("Prefix", conditions.prefix)
        + tag_elements(conditions.tags)
        + optional_int("ObjectSizeGreaterThan", conditions.larger_than_bytes)
        + optional_int("ObjectSizeLessThan", conditions.smaller_than_bytes)
    )
    return f"<Filter><And>{content}</And></Filter>" if conditions.conditions > 1 else f"<Filter>{content}</Filter>"


def _expiration_element(expiration: Expiration) -> str:
    if expiration.at_ms is not None:
        content = f"<Date>{iso_time(expiration.at_ms)}</Date>"
    elif expiration.days is not None:
        content = f"<Days>{expiration.days}</Days>"
    else:
        marker = boolean(bool(expiration.delete_markers))
        content = f"<ExpiredObjectDeleteMarker>{marker}</ExpiredObjectDeleteMarker>"
    return f"<Expiration>{content}</Expiration>"


def expiration_header(expiry: Expiry) -> str:
    """The value of `x-amz-expiration`."""
    return f'expiry-date="{http_time(expiry.at_ms)}", rule-id="{quote(expiry.rule_id, safe="")}"'

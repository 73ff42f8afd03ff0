"""Restricting policies, row filters and column masks, and their combined effect on a principal. Pure.

    {"enable": true, "restricts": {…}, "filter": {…}}       lakebed.row-filter
    {"enable": true, "restricts": {…}, "columns": {…}}      lakebed.column-mask

Unlike maintenance policies they are cumulative: a policy on a table does not lift the policies above it. A row is
visible if every filter admits it; of several masks on a column the strictest applies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from lakebed.core.errors import InvalidPolicy
from lakebed.iceberg.expressions.unbound import FALSE

from .audiences import EVERYONE, Audience, AudiencePrincipal, read_audience
from .column_masks import Mask, read_masks, strictest
from .json_documents import Json, policy_fault, read_content
from .model import Policy
from .row_filters import RowFilter, read_filter
from .sql_filters import read_sql

ROW_FILTER: Final = "lakebed.row-filter"
COLUMN_MASK: Final = "lakebed.column-mask"

RESTRICTION_TYPES: Final = frozenset({ROW_FILTER, COLUMN_MASK})
"""Policy types that restrict. Their policies are cumulative."""

SCHEMA_VERSION: Final = "2026-11-01"

_BODY_KEY: Final[Mapping[str, str]] = {ROW_FILTER: "filter", COLUMN_MASK: "columns"}
_MAX_CACHED: Final = 1024
_KEY_FORM: Final = "restriction 1"
"""Part of every key. Change it with the meaning of policies, so that copies made by older code are not reused."""


@dataclass(frozen=True, slots=True)
class RestrictionContent:
    """The validated content of a restricting policy."""

    enable: bool
    audience: Audience
    filter: RowFilter | None = None
    masks: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restriction:
    """The restrictions of a principal on a table."""

    key: str
    """Equal for equal policies and versions; changes with each of them."""
    filters: tuple[RowFilter, ...] = ()
    """A row is visible if all of them are true."""
    masks: Mapping[str, Mask] = field(default_factory=dict)
    """By lower-case column name."""
    policies: tuple[str, ...] = ()
    """The policies for display, such as `ns.p v3`."""


def parse_restriction(policy_type: str, text: str | None) -> RestrictionContent:
    """Parse the content of a restricting policy. Raises InvalidPolicy with the JSON path of the error."""
    body_key = _BODY_KEY[policy_type]
    document, enable = read_content(text, ("enable", "version", "restricts", body_key), SCHEMA_VERSION)
    audience = read_audience(document.get("restricts"), ("restricts",))
    body: Json = document.get(body_key)
    if policy_type == ROW_FILTER:
        if body is None:
            raise policy_fault((body_key,), "is required: the condition of visible rows")
        row_filter = read_sql(body, (body_key,)) if isinstance(body, str) else read_filter(body, (body_key,))
        return RestrictionContent(enable, audience, filter=row_filter)
    return RestrictionContent(enable, audience, masks=MappingProxyType(read_masks(body, (body_key,))))


def restriction_for(policies: Iterable[Policy], principal: AudiencePrincipal) -> Restriction | None:
    """The restrictions of effective policies of a table on a principal; None without any."""
    applicable = [
        (policy, content)
        for policy in policies
        if policy.type in RESTRICTION_TYPES
        for content in (_parsed(policy.type, policy.content),)
        if content.enable and content.audience.includes(principal)
    ]
    if not applicable:
        return None
    applicable.sort(key=lambda one: one[0].id)
    masks: dict[str, list[Mask]] = {}
    for _, content in applicable:
        for column, mask in content.masks.items():
            # Engines differ in case sensitivity: a mask applies to all columns that differ only in case.
            masks.setdefault(column.lower(), []).append(mask)
    return Restriction(
        _key(policy for policy, _ in applicable),
        tuple(content.filter for _, content in applicable if content.filter is not None),
        MappingProxyType({column: strictest(of_column) for column, of_column in masks.items()}),
        tuple(f"{policy} v{policy.version}" for policy, _ in applicable),
    )


def _key(policies: Iterable[Policy]) -> str:
    # Ids are not reused: a dropped policy that is created again has another id.
    parts = "\n".join((_KEY_FORM, *(f"{policy.id} {policy.version}" for policy in policies)))
    return hashlib.sha256(parts.encode()).hexdigest()


_INVALID: Final = RestrictionContent(True, EVERYONE, FALSE)
"""Replaces invalid content: hides all rows from everyone until it is valid."""


@lru_cache(maxsize=_MAX_CACHED)
def _parsed(policy_type: str, text: str) -> RestrictionContent:
    """Cached, because few policies apply to many tables."""
    try:
        return parse_restriction(policy_type, text)
    except InvalidPolicy:
        return _INVALID

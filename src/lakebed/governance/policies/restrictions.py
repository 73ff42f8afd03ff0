"""Policies that restrict what of a table some see: row filters and column masks, and what all of them come to. Pure.

    {"enable": true, "restricts": {…}, "filter": {…}}       lakebed.row-filter
    {"enable": true, "restricts": {…}, "columns": {…}}      lakebed.column-mask

Unlike policies of maintenance, these add up on the way to a table: one that is attached further down lifts nothing of
what is above it. A row is shown if every filter shows it; a column that has several masks has the strictest.
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
from .json_documents import Json, policy_fault, read_document
from .model import Policy
from .row_filters import RowFilter, read_filter
from .sql_filters import read_sql

ROW_FILTER: Final = "lakebed.row-filter"
COLUMN_MASK: Final = "lakebed.column-mask"

RESTRICTION_TYPES: Final = frozenset({ROW_FILTER, COLUMN_MASK})
"""Types whose policies add up, and restrict."""

SCHEMA_VERSION: Final = "2026-11-01"

_SAYS: Final[Mapping[str, str]] = {ROW_FILTER: "filter", COLUMN_MASK: "columns"}
_REMEMBERED: Final = 1024
_KEY_FORM: Final = "restriction 1"
"""Part of every key: to be changed with what policies mean, so that nothing made by an older meaning passes."""


@dataclass(frozen=True, slots=True)
class RestrictionContent:
    """A policy's content, checked."""

    enable: bool
    audience: Audience
    filter: RowFilter | None = None
    masks: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restriction:
    """What somebody sees of a table, where that is not all."""

    key: str
    """The same for all whom the same policies restrict, in the same versions; another whenever one of them changes."""
    filters: tuple[RowFilter, ...] = ()
    """A row is shown if all of them are true for it."""
    masks: Mapping[str, Mask] = field(default_factory=dict)
    """By names of columns in lower case."""
    policies: tuple[str, ...] = ()
    """Where it comes from, for people: `ns.p v3`."""


def parse_restriction(policy_type: str, text: str | None) -> RestrictionContent:
    """What a policy of a restricting type says. Raises InvalidPolicy with the JSON path of what is wrong."""
    document = read_document(text)
    if not isinstance(document, dict):
        raise policy_fault((), "the content is an object", document)
    says = _SAYS[policy_type]
    allowed = ("enable", "version", "restricts", says)
    for key in document:
        if key not in allowed:
            raise policy_fault((key,), f"no such key here; there are {', '.join(allowed)}")
    enable = document.get("enable")
    if not isinstance(enable, bool):
        raise policy_fault(("enable",), "is required, and true or false", enable)
    if document.get("version") not in (None, "", SCHEMA_VERSION):
        raise policy_fault(("version",), f"must be {SCHEMA_VERSION}", document["version"])
    audience = read_audience(document.get("restricts"), ("restricts",))
    said: Json = document.get(says)
    if policy_type == ROW_FILTER:
        if said is None:
            raise policy_fault((says,), "is required: which rows are shown")
        shown = read_sql(said, (says,)) if isinstance(said, str) else read_filter(said, (says,))
        return RestrictionContent(enable, audience, filter=shown)
    return RestrictionContent(enable, audience, masks=MappingProxyType(read_masks(said, (says,))))


def restriction_for(policies: Iterable[Policy], person: AudiencePrincipal) -> Restriction | None:
    """What policies that hold for a table leave of it for somebody; None if that is all of it."""
    about = [
        (policy, content)
        for policy in policies
        if policy.type in RESTRICTION_TYPES
        for content in (_read(policy.type, policy.content),)
        if content.enable and content.audience.includes(person)
    ]
    if not about:
        return None
    about.sort(key=lambda one: one[0].id)
    masks: dict[str, list[Mask]] = {}
    for _, content in about:
        for column, mask in content.masks.items():
            # Engines differ in whether case tells columns apart: a mask is of all that are called so by any of them.
            masks.setdefault(column.lower(), []).append(mask)
    return Restriction(
        _key(policy for policy, _ in about),
        tuple(content.filter for _, content in about if content.filter is not None),
        MappingProxyType({column: strictest(of_column) for column, of_column in masks.items()}),
        tuple(f"{policy} v{policy.version}" for policy, _ in about),
    )


def _key(policies: Iterable[Policy]) -> str:
    # Ids are given once: a policy that was dropped and made anew is another one.
    told = "\n".join((_KEY_FORM, *(f"{policy.id} {policy.version}" for policy in policies)))
    return hashlib.sha256(told.encode()).hexdigest()


_UNREADABLE: Final = RestrictionContent(True, EVERYONE, FALSE)
"""In place of a content that cannot be read: nobody sees anything until it can."""


@lru_cache(maxsize=_REMEMBERED)
def _read(policy_type: str, text: str) -> RestrictionContent:
    """Few policies hold for many tables: each is read once."""
    try:
        return parse_restriction(policy_type, text)
    except InvalidPolicy:
        return _UNREADABLE

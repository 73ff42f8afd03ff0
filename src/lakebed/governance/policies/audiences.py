"""The audience of a restriction: everyone, or principals and principal roles by name, with exceptions. Pure.

A role restricts every principal that has it, activated or not: a narrower token does not lift a restriction. An
exception applies only to activated roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .json_documents import Json, JsonPath, policy_fault

MAX_NAMES: Final = 1000

_LISTS: Final = ("principals", "principal-roles", "except-principals", "except-principal-roles")
_KEYS: Final = ("everyone", *_LISTS)


@dataclass(frozen=True, slots=True)
class AudiencePrincipal:
    """A principal as audiences match it."""

    name: str
    roles: frozenset[str] = frozenset()
    """All roles of the principal."""
    activated: frozenset[str] = frozenset()
    """The activated roles."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The principals that a policy restricts."""

    everyone: bool = False
    principals: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    except_principals: frozenset[str] = frozenset()
    except_roles: frozenset[str] = frozenset()

    def includes(self, principal: AudiencePrincipal) -> bool:
        """Whether the policy restricts the principal."""
        if principal.name in self.except_principals or not self.except_roles.isdisjoint(principal.activated):
            return False
        return self.everyone or principal.name in self.principals or not self.roles.isdisjoint(principal.roles)


EVERYONE: Final = Audience(everyone=True)


def read_audience(document: Json, at: JsonPath) -> Audience:
    """The audience in a document. Raises InvalidPolicy with the JSON path of the error."""
    if not isinstance(document, dict):
        raise policy_fault(at, "is required and must be an object that names restricted principals", document)
    for key in document:
        if key not in _KEYS:
            raise policy_fault((*at, key), f"unknown key, expected one of {', '.join(_KEYS)}")
    everyone = document.get("everyone", False)
    if not isinstance(everyone, bool):
        raise policy_fault((*at, "everyone"), "must be true or false", everyone)
    names = {key: _names(document, key, at) for key in _LISTS}
    if not everyone and not names["principals"] and not names["principal-roles"]:
        raise policy_fault(at, "restricts no principal: set principals, principal-roles or everyone")
    return Audience(everyone, *(names[key] for key in _LISTS))


def _names(document: Mapping[str, Json], key: str, at: JsonPath) -> frozenset[str]:
    names = document.get(key, [])
    if not isinstance(names, list) or len(names) > MAX_NAMES:
        raise policy_fault((*at, key), f"must be a list of at most {MAX_NAMES} names", names)
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise policy_fault((*at, key, number), "must be a name", name)
    return frozenset(names)

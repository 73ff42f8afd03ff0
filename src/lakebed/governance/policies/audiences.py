"""Whom a policy restricts: everyone, users or principal roles by name, and who is excepted from it. Pure.

Roles restrict whoever has them, whether the caller's token activates them or not: nobody gets rid of a restriction by
asking for less. They except only who calls with them: a token that leaves a role out leaves out what it spares.
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
    """Who asks."""

    name: str
    roles: frozenset[str] = frozenset()
    """Every role that it has."""
    activated: frozenset[str] = frozenset()
    """Those of them that it calls with."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom a policy is about."""

    everyone: bool = False
    principals: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    except_principals: frozenset[str] = frozenset()
    except_roles: frozenset[str] = frozenset()

    def includes(self, person: AudiencePrincipal) -> bool:
        """Whether the policy is about this one."""
        if person.name in self.except_principals or not self.except_roles.isdisjoint(person.activated):
            return False
        return self.everyone or person.name in self.principals or not self.roles.isdisjoint(person.roles)


EVERYONE: Final = Audience(everyone=True)


def read_audience(document: Json, at: JsonPath) -> Audience:
    """Whom a document names. Raises InvalidPolicy with the JSON path of what is wrong."""
    if not isinstance(document, dict):
        raise policy_fault(at, "is required, and an object that says who is restricted", document)
    for key in document:
        if key not in _KEYS:
            raise policy_fault((*at, key), f"no such key here; there are {', '.join(_KEYS)}")
    everyone = document.get("everyone", False)
    if not isinstance(everyone, bool):
        raise policy_fault((*at, "everyone"), "must be true or false", everyone)
    names = {key: _names(document, key, at) for key in _LISTS}
    if not everyone and not names["principals"] and not names["principal-roles"]:
        raise policy_fault(at, "restricts nobody: name principals or principal-roles, or say that it is everyone")
    return Audience(everyone, *(names[key] for key in _LISTS))


def _names(document: Mapping[str, Json], key: str, at: JsonPath) -> frozenset[str]:
    names = document.get(key, [])
    if not isinstance(names, list) or len(names) > MAX_NAMES:
        raise policy_fault((*at, key), f"must be a list of at most {MAX_NAMES} names", names)
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise policy_fault((*at, key, number), "must be a name", name)
    return frozenset(names)

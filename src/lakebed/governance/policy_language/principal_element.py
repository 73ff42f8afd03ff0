"""The Principal element of resource policies.

Permissions are granted only to what a caller *is*: an identity, an account, everyone. Role and session names are only
*claimed* by the caller (see `sessions`): they can narrow permissions by a deny, and never widen them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakebed.core.access import Principal, canonical_id
from lakebed.core.errors import InvalidPolicy

_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_CANONICAL: Final = re.compile(r"[0-9a-f]{64}")
_SERVICE: Final = re.compile(r"[a-z0-9.-]+\.amazonaws\.com")
_ARN: Final = re.compile(
    r"arn:aws:(?:iam::(?P<account>[A-Za-z0-9_-]{1,64}):(?:(?P<root>root)|(?P<kind>user|role)/(?:[^*?/]+/)*[^*?/]+)"
    r"|sts::[A-Za-z0-9_-]{1,64}:(?:assumed-role/[^*?/]+/[^*?/]+|federated-user/[^*?/]+))"
)


class GrantScope(Enum):
    """How an Allow statement matches a caller."""

    NONE = 0
    ACCOUNT = 1
    """By account: the account's identity policies must allow it too."""
    DIRECT = 2
    """By its own ARN, or as everyone."""


@dataclass(frozen=True, slots=True)
class PrincipalElement:
    """A compiled Principal element."""

    everyone: bool = False
    accounts: frozenset[str] = frozenset()
    arns: frozenset[str] = frozenset()
    canonical_ids: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    """AWS services: valid to name, but never a caller of this server."""

    def grant(self, caller: Principal) -> GrantScope:
        """How an Allow statement with this element matches the caller."""
        if self.everyone:
            return GrantScope.DIRECT
        if caller.is_anonymous:
            return GrantScope.NONE
        if self._names_account(caller):
            return GrantScope.DIRECT if caller.is_root else GrantScope.ACCOUNT
        return GrantScope.DIRECT if caller.arn in self.arns else GrantScope.NONE

    def denies(self, caller: Principal) -> bool:
        """Whether a Deny statement with this element matches the caller."""
        if self.everyone:
            return True
        if caller.is_anonymous:
            return False
        if caller.arn in self.arns or self._names_account(caller):
            return True
        session = caller.session
        return session is not None and session.arn is not None and self._names_session(session.arn)

    def exempts(self, caller: Principal) -> bool:
        """Whether a Deny with this NotPrincipal exempts the caller. An account exempts only its root."""
        if self.everyone:
            return True
        if caller.is_anonymous:
            return False
        return caller.arn in self.arns or (caller.is_root and self._names_account(caller))

    def _names_account(self, caller: Principal) -> bool:
        if caller.account in self.accounts:
            return True
        return bool(self.canonical_ids) and canonical_id(caller.account) in self.canonical_ids

    def _names_session(self, arn: str) -> bool:
        if arn in self.arns:
            return True
        account, role = arn.split(":")[4], arn.split("/")[1]
        return f"arn:aws:iam::{account}:role/{role}" in self.arns


def parse_principal_element(element: object) -> PrincipalElement:
    """Compile a Principal or NotPrincipal element. Raises InvalidPolicy with the reason."""
    if element == "*":
        return PrincipalElement(everyone=True)
    if not isinstance(element, Mapping) or not element:
        raise InvalidPolicy('principal must be "*" or an object such as {"AWS": […]}')
    everyone = False
    accounts: set[str] = set()
    arns: set[str] = set()
    canonical_ids: set[str] = set()
    services: set[str] = set()
    for kind, named in element.items():
        for name in _names(kind, named):
            if kind == "AWS":
                if name == "*":
                    everyone = True
                elif _ACCOUNT.fullmatch(name):
                    accounts.add(name)
                elif _CANONICAL.fullmatch(name):
                    canonical_ids.add(name)
                else:
                    _add_arn(name, accounts, arns)
            elif kind == "CanonicalUser" and _CANONICAL.fullmatch(name):
                canonical_ids.add(name)
            elif kind == "Service" and _SERVICE.fullmatch(name):
                services.add(name)
            else:
                raise InvalidPolicy(f"invalid principal in policy. kind={kind} principal={name}")
    return PrincipalElement(
        everyone, frozenset(accounts), frozenset(arns), frozenset(canonical_ids), frozenset(services)
    )


def _names(kind: str, named: object) -> Iterable[str]:
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidPolicy(f"principal must be a string or a list of strings. kind={kind}")
    return names


def _add_arn(name: str, accounts: set[str], arns: set[str]) -> None:
    found = _ARN.fullmatch(name)
    if found is None:
        raise InvalidPolicy(f"invalid principal in policy. kind=AWS principal={name}")
    if found["root"]:
        accounts.add(found["account"])
    elif found["kind"] == "role":
        # A session's ARN contains the role's name without its path, so paths are ignored.
        arns.add(f"arn:aws:iam::{found['account']}:role/{name.rpartition('/')[2]}")
    else:
        arns.add(name)

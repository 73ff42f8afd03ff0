"""Vended credentials that are limited to a prefix and a time."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InvalidInput
from ...core.secrets import Secret
from ..keys import check_key


@dataclass(frozen=True, slots=True)
class ScopedToken:
    """A token for an engine, and its expiry in milliseconds since the epoch."""

    token: Secret
    expires_ms: int


def check_scope_prefix(prefix: str) -> None:
    """Raise InvalidInput unless `prefix` is a key followed by `/`.

    Without the `/`, access to the table `t1` would include its neighbour `t10`.
    """
    if not prefix.endswith("/"):
        raise InvalidInput(f"prefix of a scope must end in /. prefix={prefix!r}", argument="prefix")
    check_key(prefix[:-1])


def check_lifetime(seconds: float) -> None:
    """Raise InvalidInput unless the requested lifetime is positive."""
    if not seconds > 0:
        raise InvalidInput(f"lifetime must be more than 0. seconds={seconds}", argument="lifetime")

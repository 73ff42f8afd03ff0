"""CORS rules of a bucket, and the rule that applies to a browser's request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput

__all__ = ["METHODS", "CorsConfiguration", "CorsGrant", "CorsRule", "grant", "is_header_name", "preflight"]

MAX_RULES: Final = 100
METHODS: Final = frozenset({"GET", "PUT", "HEAD", "POST", "DELETE"})
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MAX_ID: Final = 255
_VARY: Final = ("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")


def _matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern with at most one wildcard `*`."""
    before, star, after = pattern.partition("*")
    if not star:
        return pattern == text
    return len(text) >= len(before) + len(after) and text.startswith(before) and text.endswith(after)


def is_header_name(text: str) -> bool:
    """Whether a text is a valid header name or header pattern (RFC 9110 §5.1)."""
    return _HEADER_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class CorsRule:
    """Allowed origins, methods and headers, and the response headers that a page may read."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...] = ()
    exposed_headers: tuple[str, ...] = ()
    max_age_seconds: int | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        if not self.origins or not self.methods:
            raise InvalidInput("cors rule needs at least one origin and one method")
        for method in self.methods:
            if method not in METHODS:
                raise InvalidInput(f"unsupported method in cors rule. method={method}")
        for pattern in (*self.origins, *self.headers):
            if pattern.count("*") > 1:
                raise InvalidInput(f"cors pattern has more than one wildcard. pattern={pattern}")
        for header in (*self.headers, *self.exposed_headers):
            if not is_header_name(header):
                raise InvalidInput(f"invalid header name. header={header}")
        for header in self.exposed_headers:
            if "*" in header:
                raise InvalidInput(f"exposed header has a wildcard. header={header}")
        if self.id is not None and len(self.id) > _MAX_ID:
            raise InvalidInput(f"rule id may have {_MAX_ID} characters. length={len(self.id)}", argument="ID")

    def origin_for(self, origin: str) -> str | None:
        """The value for the allowed origin: `*` or the origin itself; None if it is not allowed."""
        for pattern in self.origins:
            if _matches(pattern, origin):
                return "*" if pattern == "*" else origin
        return None

    def allows_header(self, name: str) -> bool:
        """Whether a page may send this header. Header names are case-insensitive."""
        return any(_matches(pattern.lower(), name.lower()) for pattern in self.headers)


@dataclass(frozen=True, slots=True)
class CorsConfiguration:
    """A bucket's 1 to 100 rules; the first match applies."""

    rules: tuple[CorsRule, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.rules) <= MAX_RULES:
            raise InvalidInput(f"cors needs 1 to {MAX_RULES} rules. count={len(self.rules)}")


@dataclass(frozen=True, slots=True)
class CorsGrant:
    """A request that a rule allows, with the values for the browser."""

    allowed_origin: str
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    """The requested headers: all are allowed."""

    exposed_headers: tuple[str, ...]
    max_age_seconds: int | None

    def response_headers(self) -> list[tuple[str, str]]:
        """The CORS headers of the response."""
        result = [
            ("Access-Control-Allow-Origin", self.allowed_origin),
            ("Access-Control-Allow-Methods", ", ".join(self.methods)),
        ]
        if self.headers:
            result.append(("Access-Control-Allow-Headers", ", ".join(self.headers)))
        if self.exposed_headers:
            result.append(("Access-Control-Expose-Headers", ", ".join(self.exposed_headers)))
        if self.max_age_seconds is not None:
            result.append(("Access-Control-Max-Age", str(self.max_age_seconds)))
        if self.allowed_origin != "*":
            result.append(("Access-Control-Allow-Credentials", "true"))
        result.append(_VARY)
        return result


def grant(
    config: CorsConfiguration | None, origin: str | None, method: str, headers: Iterable[str] = ()
) -> CorsGrant | None:
    """The first matching rule for a request of this origin; None if no rule matches or there is no origin."""
    if config is None or not origin:
        return None
    requested = tuple(headers)
    for rule in config.rules:
        if method not in rule.methods:
            continue
        allowed = rule.origin_for(origin)
        if allowed is not None and all(rule.allows_header(name) for name in requested):
            return CorsGrant(allowed, rule.methods, requested, rule.exposed_headers, rule.max_age_seconds)
    return None


def preflight(
    config: CorsConfiguration | None, origin: str | None, method: str | None, headers: str | None
) -> CorsGrant | None:
    """The response to a preflight request; None rejects it.

    `method` and `headers` are the values of `Access-Control-Request-Method` and `-Headers`. Raises InvalidInput if
    origin or method are missing.
    """
    if not origin:
        raise InvalidInput("preflight needs an origin", argument="Origin")
    if not method:
        raise InvalidInput("preflight needs a method", argument="Access-Control-Request-Method")
    requested = (name.strip() for name in (headers or "").split(","))
    return grant(config, origin, method, [name for name in requested if name])

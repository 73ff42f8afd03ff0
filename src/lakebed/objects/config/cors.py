"""Cross-origin rules of a bucket, and which of them a browser's request falls under."""

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
    """Whether a text is of a pattern in which `*`, at most once, stands for anything."""
    before, star, after = pattern.partition("*")
    if not star:
        return pattern == text
    return len(text) >= len(before) + len(after) and text.startswith(before) and text.endswith(after)


def is_header_name(text: str) -> bool:
    """Whether a text can be the name of a header, or a pattern for some (RFC 9110 §5.1)."""
    return _HEADER_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class CorsRule:
    """Who may ask for what, from where, and what of the answer a page may see."""

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
                raise InvalidInput(f"not the name of a header. header={header}")
        for header in self.exposed_headers:
            if "*" in header:
                raise InvalidInput(f"exposed header has a wildcard. header={header}")
        if self.id is not None and len(self.id) > _MAX_ID:
            raise InvalidInput(f"rule id may have {_MAX_ID} characters. length={len(self.id)}", argument="ID")

    def origin_for(self, origin: str) -> str | None:
        """What to answer as the allowed origin: `*` if anybody is, the asker if it is by name, None if it is not."""
        for pattern in self.origins:
            if _matches(pattern, origin):
                return "*" if pattern == "*" else origin
        return None

    def allows_header(self, name: str) -> bool:
        """Whether a page may send this header. Names of headers have no case."""
        return any(_matches(pattern.lower(), name.lower()) for pattern in self.headers)


@dataclass(frozen=True, slots=True)
class CorsConfiguration:
    """A bucket's rules, 1 to 100; the first that matches counts."""

    rules: tuple[CorsRule, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.rules) <= MAX_RULES:
            raise InvalidInput(f"cors needs 1 to {MAX_RULES} rules. count={len(self.rules)}")


@dataclass(frozen=True, slots=True)
class CorsGrant:
    """A request that a rule allows, with what the browser is told."""

    allowed_origin: str
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    """The headers that were asked for: all are allowed."""

    exposed_headers: tuple[str, ...]
    max_age_seconds: int | None

    def response_headers(self) -> list[tuple[str, str]]:
        """The headers of the answer."""
        told = [
            ("Access-Control-Allow-Origin", self.allowed_origin),
            ("Access-Control-Allow-Methods", ", ".join(self.methods)),
        ]
        if self.headers:
            told.append(("Access-Control-Allow-Headers", ", ".join(self.headers)))
        if self.exposed_headers:
            told.append(("Access-Control-Expose-Headers", ", ".join(self.exposed_headers)))
        if self.max_age_seconds is not None:
            told.append(("Access-Control-Max-Age", str(self.max_age_seconds)))
        if self.allowed_origin != "*":
            told.append(("Access-Control-Allow-Credentials", "true"))
        told.append(_VARY)
        return told


def grant(
    config: CorsConfiguration | None, origin: str | None, method: str, headers: Iterable[str] = ()
) -> CorsGrant | None:
    """What the first matching rule allows a page of this origin; None if no rule does, or nothing was asked."""
    if config is None or not origin:
        return None
    asked = tuple(headers)
    for rule in config.rules:
        if method not in rule.methods:
            continue
        allowed = rule.origin_for(origin)
        if allowed is not None and all(rule.allows_header(name) for name in asked):
            return CorsGrant(allowed, rule.methods, asked, rule.exposed_headers, rule.max_age_seconds)
    return None


def preflight(
    config: CorsConfiguration | None, origin: str | None, method: str | None, headers: str | None
) -> CorsGrant | None:
    """The answer to a browser that asks first; None is a refusal.

    `method` and `headers` are the values of `Access-Control-Request-Method` and `-Headers`. Raises InvalidInput if the
    question lacks its origin or method.
    """
    if not origin:
        raise InvalidInput("preflight needs an origin", argument="Origin")
    if not method:
        raise InvalidInput("preflight needs a method", argument="Access-Control-Request-Method")
    asked = (name.strip() for name in (headers or "").split(","))
    return grant(config, origin, method, [name for name in asked if name])

"""CORS configurations."""

from __future__ import annotations

from lakebed.core.errors import InvalidInput
from lakebed.objects.config.cors import METHODS, CorsConfiguration, CorsRule, is_header_name

from ..xml import MalformedDocument, XmlElement, document, escape, parse_document
from ._parts import optional, optional_int

__all__ = ["read_cors", "write_cors"]


def read_cors(body: bytes) -> CorsConfiguration:
    """CORSConfiguration. Raises MalformedDocument, InvalidInput."""
    root = parse_document(body, "CORSConfiguration").only("CORSRule")
    if not root.children:
        raise MalformedDocument("cors configuration has no rules")
    return CorsConfiguration(tuple(_read_rule(element) for element in root.children))


def _read_rule(rule: XmlElement) -> CorsRule:
    rule.only("ID", "AllowedHeader", "AllowedMethod", "AllowedOrigin", "ExposeHeader", "MaxAgeSeconds")
    origins, methods = _texts(rule, "AllowedOrigin"), _texts(rule, "AllowedMethod")
    if not origins or not methods:
        raise MalformedDocument("cors rule requires at least one AllowedOrigin and one AllowedMethod")
    headers, exposed = _texts(rule, "AllowedHeader"), _texts(rule, "ExposeHeader")
    _check_rule(origins, methods, (*headers, *exposed))
    return CorsRule(
        origins=origins,
        methods=methods,
        headers=headers,
        exposed_headers=exposed,
        max_age_seconds=rule.optional_int("MaxAgeSeconds"),
        id=rule.optional_text("ID"),
    )


def _check_rule(origins: tuple[str, ...], methods: tuple[str, ...], headers: tuple[str, ...]) -> None:
    """Check a rule before `CorsRule` does, with S3's error messages. Raises InvalidInput."""
    for method in methods:
        if method not in METHODS:
            raise InvalidInput(f"Found unsupported HTTP method in CORS config. Unsupported method is {method[:100]}")
    for origin in origins:
        if origin.count("*") > 1:
            raise InvalidInput(f'AllowedOrigin "{origin[:200]}" can not have more than one wildcard.')
    for header in headers:
        if not is_header_name(header):
            raise InvalidInput(f'AllowedHeader "{header[:200]}" contains invalid character.')


def _texts(rule: XmlElement, name: str) -> tuple[str, ...]:
    return tuple(element.text.strip() for element in rule.all(name))


def write_cors(config: CorsConfiguration) -> bytes:
    """CORSConfiguration."""
    return document("CORSConfiguration", "".join([_rule_element(rule) for rule in config.rules]))


def _rule_element(rule: CorsRule) -> str:
    lists = "".join(
        f"<{tag}>{escape(text)}</{tag}>"
        for tag, texts in (
            ("AllowedHeader", rule.headers),
            ("AllowedMethod", rule.methods),
            ("AllowedOrigin", rule.origins),
            ("ExposeHeader", rule.exposed_headers),
        )
        for text in texts
    )
    return f"<CORSRule>{optional('ID', rule.id)}{lists}{optional_int('MaxAgeSeconds', rule.max_age_seconds)}</CORSRule>"

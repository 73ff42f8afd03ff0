from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.objects.config.cors import CorsConfiguration, CorsGrant, CorsRule, grant, preflight

CONFIG = CorsConfiguration(
    (
        CorsRule(("*suffix",), ("GET",)),
        CorsRule(("start*end",), ("GET",)),
        CorsRule(("prefix*",), ("GET",)),
        CorsRule(("*.put",), ("PUT", "POST"), ("x-amz-*", "Content-Type"), ("ETag", "x-amz-request-id"), 60),
        CorsRule(("*",), ("HEAD",)),
    )
)


@pytest.mark.parametrize(
    ("origin", "method", "allowed"),
    [
        ("foo.suffix", "GET", "foo.suffix"),
        ("suffix", "GET", "suffix"),
        ("foo.bar", "GET", None),
        ("foo.suffix.get", "GET", None),
        ("startend", "GET", "startend"),
        ("start1end", "GET", "start1end"),
        ("startxen", "GET", None),
        ("starte", "GET", None),
        ("prefix", "GET", "prefix"),
        ("prefix.suffix", "GET", "prefix.suffix"),
        ("bla.prefix", "GET", None),
        ("foo.put", "GET", None),
        ("foo.put", "PUT", "foo.put"),
        ("foo.suffix", "DELETE", None),
        ("anything", "HEAD", "*"),
        (None, "HEAD", None),
        ("", "HEAD", None),
    ],
)
def test_origin_and_method_select_a_rule(origin: str | None, method: str, allowed: str | None) -> None:
    found = grant(CONFIG, origin, method)
    assert (found and found.allowed_origin) == allowed


def test_overlapping_ends_of_a_pattern_do_not_match() -> None:
    config = CorsConfiguration((CorsRule(("aba*aba",), ("GET",)),))
    assert grant(config, "aba", "GET") is None
    assert grant(config, "ababa", "GET") is None
    assert grant(config, "abaaba", "GET") is not None


def test_bucket_without_rules_allows_nothing() -> None:
    assert grant(None, "http://a", "GET") is None
    assert preflight(None, "http://a", "GET", None) is None


def test_preflight_requires_an_origin_and_a_method() -> None:
    for origin, method, argument in ((None, "GET", "Origin"), ("o", None, "Access-Control-Request-Method")):
        with pytest.raises(InvalidInput) as refused:
            preflight(CONFIG, origin, method, None)
        assert refused.value.argument == argument


def test_preflight_requires_every_header_to_be_allowed() -> None:
    found = preflight(CONFIG, "a.put", "PUT", "X-Amz-Meta-A, content-type,")
    assert found == CorsGrant(
        "a.put", ("PUT", "POST"), ("X-Amz-Meta-A", "content-type"), ("ETag", "x-amz-request-id"), 60
    )
    assert preflight(CONFIG, "a.put", "PUT", "x-amz-meta-a, x-other") is None
    assert preflight(CONFIG, "a.suffix", "GET", "x-amz-meta-a") is None


def test_later_rule_applies_if_an_earlier_one_does_not_allow_the_headers() -> None:
    config = CorsConfiguration((CorsRule(("*",), ("GET",)), CorsRule(("http://a",), ("GET",), ("*",))))
    found = preflight(config, "http://a", "GET", "x-any")
    assert found is not None
    assert found.allowed_origin == "http://a"


def test_named_origin_is_allowed_with_credentials() -> None:
    found = preflight(CONFIG, "a.put", "PUT", "x-amz-a")
    assert found is not None
    assert found.response_headers() == [
        ("Access-Control-Allow-Origin", "a.put"),
        ("Access-Control-Allow-Methods", "PUT, POST"),
        ("Access-Control-Allow-Headers", "x-amz-a"),
        ("Access-Control-Expose-Headers", "ETag, x-amz-request-id"),
        ("Access-Control-Max-Age", "60"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"),
    ]


def test_wildcard_origin_is_allowed_without_credentials() -> None:
    found = grant(CONFIG, "http://a", "HEAD")
    assert found is not None
    assert found.response_headers() == [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Methods", "HEAD"),
        ("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"),
    ]


def test_invalid_rules_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="method=PATCH"):
        CorsRule(("*",), ("PATCH",))
    with pytest.raises(InvalidInput, match="method=get"):
        CorsRule(("*",), ("get",))
    with pytest.raises(InvalidInput, match="more than one wildcard"):
        CorsRule(("http://*.*",), ("GET",))
    with pytest.raises(InvalidInput, match="more than one wildcard"):
        CorsRule(("*",), ("GET",), ("x-*-*",))
    with pytest.raises(InvalidInput, match="exposed"):
        CorsRule(("*",), ("GET",), (), ("x-*",))
    with pytest.raises(InvalidInput, match="at least one"):
        CorsRule((), ("GET",))
    with pytest.raises(InvalidInput, match="invalid header name"):
        CorsRule(("*",), ("GET",), headers=("x amz",))
    with pytest.raises(InvalidInput, match="length=256"):
        CorsRule(("*",), ("GET",), id="x" * 256)


def test_configuration_has_one_to_a_hundred_rules() -> None:
    rule = CorsRule(("*",), ("GET",))
    assert len(CorsConfiguration((rule,) * 100).rules) == 100
    for wrong in (0, 101):
        with pytest.raises(InvalidInput, match=f"count={wrong}"):
            CorsConfiguration((rule,) * wrong)

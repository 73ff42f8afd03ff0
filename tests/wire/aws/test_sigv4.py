"""Signature Version 4: AWS's published examples, and the rules for each part of a canonical request.

The examples are the keys, requests and signatures of "Authenticating Requests" in the S3 API reference.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.core.secrets import Secret
from lakebed.wire.aws.sigv4 import (
    EMPTY_SHA256,
    MAX_CACHED_CHARS,
    MAX_PRESIGNED_SECONDS,
    CredentialScope,
    MalformedSignature,
    SigningKey,
    SigningKeyCache,
    canonical_headers,
    canonical_paths,
    canonical_query,
    canonical_request,
    parse_amz_date,
    parse_authorization,
    parse_scope,
    signature_matches,
    signed_headers,
    string_to_sign,
)

SECRET = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
SCOPE = CredentialScope("AKIAIOSFODNN7EXAMPLE", "20130524", "us-east-1", "s3")
AMZ_DATE = "20130524T000000Z"
HOST = {"host": "examplebucket.s3.amazonaws.com"}
BASE = {**HOST, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": AMZ_DATE}
WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()


def verifies(
    method: str,
    path: str,
    query: str,
    headers: dict[str, str],
    payload: str,
    signature: str,
    *,
    scope: CredentialScope = SCOPE,
) -> bool:
    signed = tuple(sorted(headers))
    return signature_matches(
        SigningKey(SECRET, scope),
        signature,
        method=method,
        raw_path=path,
        query=canonical_query(query),
        header_lines=canonical_headers(headers, signed),
        signed=";".join(signed),
        payload_hash=payload,
        amz_date=AMZ_DATE,
        scope=scope.text,
    )


EXAMPLES = {
    "GetObject": (
        "GET",
        "/test.txt",
        "",
        {**BASE, "range": "bytes=0-9"},
        EMPTY_SHA256,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "PutObject": (
        "PUT",
        "/test%24file.text",
        "",
        {
            **BASE,
            "date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
            "x-amz-content-sha256": WELCOME,
        },
        WELCOME,
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "GetBucketLifecycle": (
        "GET",
        "/",
        "lifecycle",
        BASE,
        EMPTY_SHA256,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "ListObjects": (
        "GET",
        "/",
        "max-keys=2&prefix=J",
        BASE,
        EMPTY_SHA256,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
    "presigned GetObject": (
        "GET",
        "/test.txt",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3"
        "%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host",
        HOST,
        "UNSIGNED-PAYLOAD",
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_published_example_verifies(name: str) -> None:
    assert verifies(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_changed_example_does_not_verify(name: str) -> None:
    method, path, query, headers, payload, signature = EXAMPLES[name]
    for changed in (
        ("DELETE", path, query, headers, payload, signature),
        (method, path + "x", query, headers, payload, signature),
        (method, path, query + "&x", headers, payload, signature),
        (method, path, query, {**headers, "host": "other"}, payload, signature),
        (method, path, query, headers, payload[::-1], signature),
        (method, path, query, headers, payload, signature[::-1]),
        (method, path, query, headers, payload, signature.upper()),
        (method, path, query, headers, payload, ""),
    ):
        assert not verifies(*changed)


@pytest.mark.parametrize("other", [("20130525", "us-east-1", "s3"), ("20130524", "eu-west-1", "s3")])
def test_signing_key_of_another_day_or_region_does_not_verify(other: tuple[str, str, str]) -> None:
    assert not verifies(*EXAMPLES["GetObject"], scope=CredentialScope(SCOPE.access_key, *other))


# -- paths ----------------------------------------------------------------------------------------------------------


def _sign(path: str, scope: CredentialScope = SCOPE) -> str:
    lines = canonical_headers(BASE, tuple(sorted(BASE)))
    canonical = canonical_request("GET", path, "", lines, ";".join(sorted(BASE)), EMPTY_SHA256)
    return SigningKey(SECRET, scope).sign(string_to_sign(canonical, AMZ_DATE, scope.text))


@pytest.mark.parametrize(
    ("sent", "signed"),
    [
        ("/b/k", "/b/k"),
        ("/b/a%20b", "/b/a%20b"),
        ("/b/a+b", "/b/a%2Bb"),
        ("/b/a%2bb", "/b/a%2Bb"),
        ("/b/a=b", "/b/a%3Db"),
        ("/b/(1)!*'", "/b/%281%29%21%2A%27"),
        ("/b/%7Ea", "/b/~a"),
        ("/b//a/../b/.", "/b//a/../b/."),
        ("/b/é", "/b/%C3%A9"),
    ],
)
def test_path_verifies_as_sent_and_as_s3_encodes_it(sent: str, signed: str) -> None:
    assert verifies("GET", sent, "", BASE, EMPTY_SHA256, _sign(signed))
    assert verifies("GET", sent, "", BASE, EMPTY_SHA256, _sign(sent))


def test_signature_for_an_encoded_key_does_not_verify_for_the_decoded_key() -> None:
    """`a%20b` and `a b` are two keys: with double encoding, a signature for one would verify for the other."""
    signed_for_percent = _sign("/b/a%2520b")
    assert verifies("GET", "/b/a%2520b", "", BASE, EMPTY_SHA256, signed_for_percent)
    assert not verifies("GET", "/b/a%20b", "", BASE, EMPTY_SHA256, signed_for_percent)


def test_paths_of_other_services_verify_encoded_twice() -> None:
    """All AWS services except S3 encode paths twice; table clients sign catalog requests this way."""
    scope = CredentialScope(SCOPE.access_key, "20130524", "us-east-1", "s3tables")
    signature = _sign("/iceberg/v1/namespaces/a%251Fb", scope)
    assert verifies("GET", "/iceberg/v1/namespaces/a%1Fb", "", BASE, EMPTY_SHA256, signature, scope=scope)


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_all_canonical_paths_decode_to_the_same_key(key: str) -> None:
    sent = "/b/" + quote(key, safe="/~!*'()+=:@,;$&")
    for path in canonical_paths(sent):
        assert unquote_to_bytes(path) == unquote_to_bytes(sent)


# -- queries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", ""),
        ("lifecycle", "lifecycle="),
        ("lifecycle=", "lifecycle="),
        ("b=2&a=1", "a=1&b=2"),
        ("a=2&a=1", "a=1&a=2"),
        ("a-b=1&a=2", "a=2&a-b=1"),
        ("a=1&&b=2&", "a=1&b=2"),
        ("prefix=a/b", "prefix=a%2Fb"),
        ("prefix=a%2fb", "prefix=a%2Fb"),
        ("prefix=a+b", "prefix=a%20b"),
        ("prefix=a%2Bb", "prefix=a%2Bb"),
        ("prefix=~a%7E", "prefix=~a~"),
        ("prefix=é", "prefix=%C3%A9"),
        ("a=b=c", "a=b%3Dc"),
        ("A=1&a=2", "A=1&a=2"),
    ],
)
def test_query_is_sorted_and_encoded_canonically(raw: str, canonical: str) -> None:
    assert canonical_query(raw) == canonical


def test_signature_parameter_is_excluded_from_the_canonical_query() -> None:
    assert canonical_query("a=1&X-Amz-Signature=abc&b=2", without="X-Amz-Signature") == "a=1&b=2"


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(max_size=5)), max_size=5), st.data())
def test_order_of_parameters_does_not_matter(parameters: list[tuple[str, str]], data: st.DataObject) -> None:
    pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters]
    shuffled = data.draw(st.permutations(pairs))
    assert canonical_query("&".join(shuffled)) == canonical_query("&".join(pairs))


def reencoded(component: str) -> str:
    return quote(unquote_to_bytes(component.replace("+", " ").encode("utf-8", "surrogateescape")), safe="-_.~")


RAW_PAIRS = st.lists(
    st.sampled_from(["X-Amz-Signature", "X-Amz-Signature=a", "X-Amz-Signatures=b", "a-b=1", "a=2", "a=2%2f", "=c", "="])
    | st.text("aZ0-_.~%2Ff=+/é\udcff", max_size=8),
    max_size=8,
)


@given(RAW_PAIRS, st.booleans(), st.booleans())
def test_cached_and_uncached_canonical_queries_agree(pairs: list[str], unsigned: bool, long: bool) -> None:
    if long:
        pairs = [*pairs, "long=" + "x" * MAX_CACHED_CHARS]
    without = "X-Amz-Signature" if unsigned else None
    named = [(name, value) for name, _, value in (pair.partition("=") for pair in pairs if pair) if name != without]
    expected = sorted((reencoded(name), reencoded(value)) for name, value in named)
    for _ in ("computed", "cached"):
        found = canonical_query("&".join(pairs), without=without)
        assert found == "&".join(f"{name}={value}" for name, value in expected)


# -- headers --------------------------------------------------------------------------------------------------------


def test_header_values_are_trimmed_and_their_spaces_collapsed() -> None:
    headers = {"host": "h", "x-amz-meta-a": "  a   b  ", "x-amz-meta-b": "c d"}
    lines = canonical_headers(headers, ("host", "x-amz-meta-a", "x-amz-meta-b"))
    assert lines == "host:h\nx-amz-meta-a:a b\nx-amz-meta-b:c d\n"


def test_missing_signed_header_is_malformed() -> None:
    with pytest.raises(MalformedSignature):
        canonical_headers({"host": "h"}, ("host", "x-amz-date"))


def test_headers_that_proxies_remove_get_default_values() -> None:
    lines = canonical_headers({"host": "h"}, ("content-length", "expect", "host"))
    assert lines == "content-length:0\nexpect:100-continue\nhost:h\n"


HEADER_NAMES = st.sampled_from(["host", "x-amz-date", "x-amz-meta-%s", "expect", "content-length", "range", ""])


@given(st.dictionaries(HEADER_NAMES, st.text("ab :%s\té", max_size=6)), st.lists(HEADER_NAMES, min_size=1, max_size=4))
def test_cached_signed_headers_format_the_same_lines(headers: dict[str, str], names: list[str]) -> None:
    signed = signed_headers(";".join(names))
    assert signed is signed_headers(";".join(names))
    assert (signed.names, signed.text) == (tuple(names), ";".join(names))
    try:
        expected = canonical_headers(headers, tuple(names))
    except MalformedSignature as error:
        with pytest.raises(MalformedSignature, match=str(error)):
            signed.lines(headers)
    else:
        assert signed.lines(headers) == expected


def test_long_header_names_and_scopes_are_parsed_but_not_cached() -> None:
    names = "host;" + "x" * MAX_CACHED_CHARS
    assert signed_headers(names).names == tuple(names.split(";"))
    assert signed_headers(names) is not signed_headers(names)
    key = "k" * MAX_CACHED_CHARS
    assert parse_scope(f"{key}/20130524/us-east-1/s3/aws4_request") == (key, "20130524", "us-east-1", "s3")


# -- parsing --------------------------------------------------------------------------------------------------------

SIGNATURE = "a" * 64
CREDENTIAL = "Credential=AKID/20130524/us-east-1/s3/aws4_request"


@pytest.mark.parametrize(
    "header",
    [
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA256 {CREDENTIAL},SignedHeaders=host;x-amz-date,Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA256 Signature={SIGNATURE}, {CREDENTIAL}, SignedHeaders=host;x-amz-date",
        f"AWS4-HMAC-SHA256 SignedHeaders=host;x-amz-date,  {CREDENTIAL} , Signature={SIGNATURE}",
    ],
)
def test_authorization_components_are_parsed_in_any_order(header: str) -> None:
    parsed, signature = parse_authorization(header)
    assert signature == SIGNATURE
    assert parsed.scope == CredentialScope("AKID", "20130524", "us-east-1", "s3")
    assert parsed.scope_text == "20130524/us-east-1/s3/aws4_request"
    assert (parsed.signed.names, parsed.signed.text) == (("host", "x-amz-date"), "host;x-amz-date")


@pytest.mark.parametrize(
    "header",
    [
        "AWS4-HMAC-SHA256 ",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA256 SignedHeaders=host, Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host, Signature=short",
        f"AWS4-HMAC-SHA256 Credential=AKID, SignedHeaders=host, Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA256 Credential=, SignedHeaders=host, Signature={SIGNATURE}",
        f"AWS4-HMAC-SHA512 {CREDENTIAL}, SignedHeaders=host, Signature={SIGNATURE}",
    ],
)
def test_incomplete_authorization_is_malformed(header: str) -> None:
    with pytest.raises(MalformedSignature):
        parse_authorization(header)


@given(st.text(max_size=80) | st.text("AWS4-HMACSH256 CredentialSgnurh=,;/0", max_size=120))
def test_random_authorization_is_malformed(noise: str) -> None:
    with pytest.raises(MalformedSignature):
        parse_authorization("AWS4-HMAC-SHA256 " + noise)


def test_access_key_may_contain_slashes() -> None:
    assert parse_scope("a/b/20130524/us-east-1/s3/aws4_request").access_key == "a/b"


@pytest.mark.parametrize(
    "text",
    [
        "AKID/20130524/us-east-1/s3/aws4",
        "AKID/20130524/us-east-1/ec2/aws4_request",
        "AKID/2013-05-24/us-east-1/s3/aws4_request",
        "AKID/2013052/us-east-1/s3/aws4_request",
        "AKID/2013052²/us-east-1/s3/aws4_request",
        "/20130524/us-east-1/s3/aws4_request",
        "20130524/us-east-1/s3/aws4_request",
        "",
    ],
)
def test_invalid_scope_is_malformed(text: str) -> None:
    with pytest.raises(MalformedSignature):
        parse_scope(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("19700101T000000Z", 0), ("20130524T000000Z", 1369353600), ("20240229T235960Z", 1709251200)],
)
def test_amz_date_is_parsed_to_seconds_since_the_epoch(text: str, seconds: int) -> None:
    assert parse_amz_date(text) == seconds


@given(st.text(max_size=16) | st.text("0123456789TZ²", min_size=16, max_size=16))
@example("00000101T000000Z")
@example("20130000T000000Z")
@example("20131301T000000Z")
@example("20130524T240000Z")
@example("20130524T006000Z")
@example("20130524 000000Z")
@example("2013052²T000000Z")
def test_random_text_is_not_a_date(noise: str) -> None:
    try:
        parse_amz_date(noise)
    except MalformedSignature:
        return
    assert noise[8] == "T"
    assert noise[15] == "Z"
    assert (noise[:8] + noise[9:15]).isdecimal()
    assert noise[:4] != "0000"


def test_presigned_urls_are_valid_for_at_most_a_week() -> None:
    assert MAX_PRESIGNED_SECONDS == 604800


# -- keys -----------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=[]), max_size=200).map(lambda t: t.encode("utf-8", "replace").decode()))
@example("")
@example("caf\udce9")
def test_signature_equals_the_hmac_of_the_text(text: str) -> None:
    key = b"AWS4" + SECRET.reveal().encode()
    for step in (SCOPE.date, SCOPE.region, SCOPE.service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signer = SigningKey(SECRET, SCOPE)
    for _ in ("first", "again"):
        assert signer.sign(text) == hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def test_signing_key_is_derived_once_per_scope_and_secret() -> None:
    keys = SigningKeyCache(limit=2)
    first = keys.get(SCOPE, SECRET)
    assert keys.get(SCOPE, Secret(SECRET.reveal())) is first
    assert keys.get(SCOPE, Secret("rotated")) is not first
    assert keys.get(SCOPE, SECRET).sign("x") == first.sign("x")
    third = keys.get(CredentialScope("other", "20130524", "us-east-1", "s3"), SECRET)
    assert third.sign("x") == first.sign("x")
    assert len(keys._keys) <= 2


@given(st.text(alphabet="abcXYZ-_.~%+ /=é\x00\x7f0123456789ABCDEFabcdef", max_size=30))
def test_query_component_is_decoded_and_encoded(component: str) -> None:
    again = quote(unquote_to_bytes(component.replace("+", " ").encode()), safe="-_.~")
    assert canonical_query(f"n={component}") == f"n={again}"


@given(st.binary(max_size=30))
def test_canonical_query_component_is_unchanged(data: bytes) -> None:
    normal = quote(data, safe="-_.~")
    assert canonical_query(f"n={normal}") == f"n={normal}"

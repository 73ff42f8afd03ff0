"""Authentication: requests that botocore signs verify, and none that were changed afterwards."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote, unquote_plus, unquote_to_bytes, urlsplit

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS, Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, InvalidInput, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.wire.aws.authentication import MAX_SKEW_SECONDS, Authenticated, SignatureAuthenticator
from lakebed.wire.aws.chunk_signing import StreamingKind
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.sigv4 import SigningKey, parse_scope
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request

NOW = datetime(2024, 2, 29, 12, 0, 0, tzinfo=UTC)
ACCESS_KEY, SECRET_KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "session/token+with=signs"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
ROOT = root_of("000000000000")


class Keys:
    """A long-lived access key, and temporary credentials that require their session token."""

    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        if access_key_id == "EXPIRED":
            raise CredentialsExpired("expired")
        if access_key_id == "REVOKED":
            raise CredentialsRevoked("revoked")
        if access_key_id == ACCESS_KEY and session_token is None:
            return Credential(ACCESS_KEY, Secret(SECRET_KEY), ROOT)
        if access_key_id == "TEMPORARY" and session_token == TOKEN:
            return Credential(access_key_id, Secret(SECRET_KEY), ROOT)
        raise Unauthenticated(f"no such key. key={access_key_id}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(round(NOW.timestamp() * 1000))


@pytest.fixture
def authenticator(clock: ManualClock) -> SignatureAuthenticator:
    return SignatureAuthenticator(Keys(), clock)


def received(
    method: str, path: str, query: str = "", headers: dict[str, str] | None = None, body: bytes = b""
) -> Request:
    """A request as the HTTP server creates it."""
    incoming = RequestBody(len(body))
    if body:
        incoming.push(body)
        incoming.finish()
    return Request(method, path, query, {"host": "localhost:9000", **(headers or {})}, incoming, "http", "", "R1")


def sign(
    method: str,
    path: str,
    query: str = "",
    headers: dict[str, str] | None = None,
    *,
    body: bytes = b"",
    keys: Credentials | None = None,
    expires: int | None = None,
    signer: type[botocore.auth.SigV4Auth] = botocore.auth.S3SigV4Auth,
    service: str = "s3",
) -> Request:
    """A request signed by botocore, in its headers, or as a presigned URL with an expiry in seconds."""
    url = f"http://localhost:9000{path}" + (f"?{query}" if query else "")
    outgoing = AWSRequest(method, url, dict(headers or {}), body)
    chosen = keys or Credentials(ACCESS_KEY, SECRET_KEY)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        if expires is None:
            signer(chosen, service, "us-east-1").add_auth(outgoing)
        else:
            botocore.auth.S3SigV4QueryAuth(chosen, service, "us-east-1", expires=expires).add_auth(outgoing)
    parts = urlsplit(outgoing.url)
    sent = {name.lower(): value for name, value in outgoing.headers.items()}
    return received(method, parts.path, parts.query, sent, body)


async def error_of(authenticator: SignatureAuthenticator, request: Request) -> str:
    """The status and code of the error."""
    with pytest.raises(AwsFault) as error:
        await authenticator.authenticate(request)
    return f"{error.value.status} {error.value.code}"


# -- requests signed by botocore ------------------------------------------------------------------------------------


async def test_signed_request_verifies(authenticator: SignatureAuthenticator) -> None:
    request = sign("PUT", "/bucket/key", "", {"x-amz-meta-a": "  1   2 "}, body=b"abc")
    authenticated = await authenticator.authenticate(request)
    assert (authenticated.principal, authenticated.is_signed, authenticated.signed_at) == (
        ROOT,
        True,
        int(NOW.timestamp()),
    )
    assert authenticated.payload.sha256 == hashlib.sha256(b"abc").hexdigest()


async def test_presigned_url_verifies(authenticator: SignatureAuthenticator) -> None:
    authenticated = await authenticator.authenticate(sign("GET", "/bucket/key", "versionId=1", expires=60))
    assert authenticated == Authenticated(ROOT, signed_at=int(NOW.timestamp()))


odd_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12) | st.text(
    "ab/.%+ ~&=?#:@!$'()*,;[]\\|^`{}\"<>", min_size=1, max_size=12
)


def _path(key: str) -> str:
    # As botocore encodes a key in a URL.
    return "/bucket/" + quote(key, safe="/~")


def _query(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='-._~')}={quote(value, safe='-._~')}" for name, value in pairs)


names = odd_text.filter(lambda name: not name.lower().startswith("x-amz-"))


@settings(max_examples=80)
@given(
    method=st.sampled_from(("GET", "PUT", "DELETE")),
    key=odd_text,
    pairs=st.lists(st.tuples(names, odd_text | st.just("")), max_size=3, unique_by=lambda pair: pair[0]),
    expires=st.none() | st.integers(1, 604800),
    temporary=st.booleans(),
)
async def test_requests_with_any_key_and_parameters_verify(
    method: str, key: str, pairs: list[tuple[str, str]], expires: int | None, temporary: bool
) -> None:
    keys = Credentials("TEMPORARY", SECRET_KEY, TOKEN) if temporary else None
    request = sign(method, _path(key), _query(pairs), keys=keys, expires=expires)
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round(NOW.timestamp() * 1000)))
    assert (await authenticator.authenticate(request)).principal == ROOT


def _meaning(request: Request) -> object:
    """The decoded request: changes of its encoding may verify."""
    query = sorted(
        (unquote_plus(name), unquote_plus(value))
        for name, _, value in (pair.partition("=") for pair in request.raw_query.split("&") if pair)
    )
    headers = {name: " ".join(value.split()) for name, value in request.headers.items()}
    headers["authorization"] = ",".join(map(str.strip, headers.get("authorization", "").split(",")))
    return request.method, unquote_to_bytes(request.raw_path), query, headers


_CHARACTERS = st.sampled_from("abzAZ019-_.~/%+&=;: ")


@pytest.mark.slow
@settings(max_examples=250)
@given(
    key=odd_text,
    pairs=st.lists(st.tuples(names, odd_text), max_size=2, unique_by=lambda pair: pair[0]),
    presigned=st.booleans(),
    data=st.data(),
)
async def test_request_with_one_changed_character_does_not_verify(
    key: str, pairs: list[tuple[str, str]], presigned: bool, data: st.DataObject
) -> None:
    headers = {"x-amz-meta-note": "first", "content-type": "text/plain"}
    request = sign("PUT", _path(key), _query(pairs), headers, expires=300 if presigned else None)
    signed_names = [name for name in request.headers if name != "content-length"]
    place = data.draw(st.sampled_from(["path", "query", *signed_names]))
    text = {"path": request.raw_path, "query": request.raw_query}.get(place, request.headers.get(place, ""))
    at = data.draw(st.integers(1 if place == "path" else 0, max(0, len(text) - 1)))
    what = data.draw(st.sampled_from(("replace", "remove", "insert")))
    character = "" if what == "remove" else data.draw(_CHARACTERS)
    changed = text[:at] + character + text[at if what == "insert" else at + 1 :]
    forged = received(
        "PUT",
        changed if place == "path" else request.raw_path,
        changed if place == "query" else request.raw_query,
        {**request.headers, place: changed} if place in request.headers else dict(request.headers),
    )
    if _meaning(forged) == _meaning(request):
        return
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round(NOW.timestamp() * 1000)))
    with pytest.raises((AwsFault, InvalidInput)):
        await authenticator.authenticate(forged)


@settings(max_examples=60)
@given(signed=odd_text, sent=odd_text, presigned=st.booleans())
async def test_signature_for_a_key_does_not_verify_for_another_key(signed: str, sent: str, presigned: bool) -> None:
    """Nor for the key after it is decoded or encoded again."""
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round(NOW.timestamp() * 1000)))
    request = sign("GET", _path(signed), expires=300 if presigned else None)
    for other in {sent, unquote_plus(signed), quote(signed), quote(signed, safe="")} - {signed}:
        forged = received("GET", _path(other), request.raw_query, dict(request.headers))
        assert await error_of(authenticator, forged) == "403 SignatureDoesNotMatch"


async def test_catalog_request_signed_by_the_generic_signer_verifies(authenticator: SignatureAuthenticator) -> None:
    """Table clients use botocore's generic signer, which encodes paths twice."""
    request = sign(
        "GET",
        "/iceberg/v1/namespaces/a%1Fb",
        headers={"x-amz-content-sha256": EMPTY_SHA256},
        signer=botocore.auth.SigV4Auth,
        service="s3tables",
    )
    assert (await authenticator.authenticate(request)).principal == ROOT


async def test_sts_request_without_payload_hash_is_verified_with_its_body(
    authenticator: SignatureAuthenticator,
) -> None:
    body = b"Action=GetCallerIdentity&Version=2011-06-15"
    request = sign("POST", "/", body=body, signer=botocore.auth.SigV4Auth, service="sts")
    assert "x-amz-content-sha256" not in request.headers
    authenticated = await authenticator.authenticate(request)
    assert (authenticated.principal, authenticated.body) == (ROOT, body)
    forged = received("POST", "/", "", dict(request.headers), body.replace(b"Get", b"Set"))
    assert await error_of(authenticator, forged) == "403 SignatureDoesNotMatch"


# -- credentials ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expires", [None, 60], ids=["header", "url"])
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (Credentials("UNKNOWN", SECRET_KEY), "403 InvalidAccessKeyId"),
        (Credentials(ACCESS_KEY, "another secret"), "403 SignatureDoesNotMatch"),
        (Credentials("EXPIRED", SECRET_KEY, "t"), "400 ExpiredToken"),
        (Credentials("REVOKED", SECRET_KEY, "t"), "403 InvalidAccessKeyId"),
        (Credentials("TEMPORARY", SECRET_KEY, "another"), "400 InvalidToken"),
        (Credentials("TEMPORARY", SECRET_KEY), "403 InvalidAccessKeyId"),
        (Credentials(ACCESS_KEY, SECRET_KEY, "a token of another key"), "400 InvalidToken"),
    ],
    ids=["unknown", "wrong secret", "expired", "revoked", "wrong token", "no token", "unexpected token"],
)
async def test_invalid_credentials_get_specific_errors(
    authenticator: SignatureAuthenticator, keys: Credentials, expires: int | None, expected: str
) -> None:
    assert await error_of(authenticator, sign("GET", "/bucket", keys=keys, expires=expires)) == expected


@pytest.mark.parametrize(("token", "what"), [(None, "access key"), ("t", "token")])
async def test_expired_credentials_error_names_token_or_access_key(
    authenticator: SignatureAuthenticator, token: str | None, what: str
) -> None:
    with pytest.raises(AwsFault) as error:
        await authenticator.authenticate(sign("GET", "/bucket", keys=Credentials("EXPIRED", SECRET_KEY, token)))
    assert (error.value.code, str(error.value)) == ("ExpiredToken", f"The provided {what} has expired.")


async def test_token_must_be_signed(authenticator: SignatureAuthenticator) -> None:
    request = sign("GET", "/bucket", keys=Credentials("TEMPORARY", SECRET_KEY))
    added = received("GET", "/bucket", "", {**request.headers, "x-amz-security-token": TOKEN})
    assert await error_of(authenticator, added) == "403 AccessDenied"


async def test_request_without_credentials_is_anonymous(authenticator: SignatureAuthenticator) -> None:
    authenticated = await authenticator.authenticate(received("GET", "/bucket/key", "versionId=1"))
    assert (authenticated.principal, authenticated.is_signed, authenticated.payload.sha256) == (ANONYMOUS, False, None)


# -- signing time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (MAX_SKEW_SECONDS, None),
        (MAX_SKEW_SECONDS + 1, "403 RequestTimeTooSkewed"),
        (-MAX_SKEW_SECONDS, None),
        (-MAX_SKEW_SECONDS - 1, "403 RequestTimeTooSkewed"),
    ],
)
async def test_clock_skew_of_fifteen_minutes_is_allowed(seconds: int, expected: str | None) -> None:
    clock = ManualClock(round((NOW.timestamp() + seconds) * 1000))
    authenticator = SignatureAuthenticator(Keys(), clock)
    request = sign("GET", "/bucket")
    if expected is None:
        assert (await authenticator.authenticate(request)).principal == ROOT
    else:
        assert await error_of(authenticator, request) == expected


@pytest.mark.parametrize(
    ("expires", "seconds", "expected"),
    [
        (1, 0, None),
        (1, 1, "403 AccessDenied"),
        (60, 59, None),
        (60, 60, "403 AccessDenied"),
        (604800, 604799, None),
        (604801, 0, "400 AuthorizationQueryParametersError"),
        (-1, 0, "400 AuthorizationQueryParametersError"),
        (0, 0, "403 AccessDenied"),
        (60, -MAX_SKEW_SECONDS, None),
        (60, -MAX_SKEW_SECONDS - 1, "403 AccessDenied"),
    ],
)
async def test_presigned_url_is_valid_until_its_expiry(expires: int, seconds: int, expected: str | None) -> None:
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round((NOW.timestamp() + seconds) * 1000)))
    request = sign("GET", "/bucket/key", expires=expires)
    if expected is None:
        assert (await authenticator.authenticate(request)).principal == ROOT
    else:
        assert await error_of(authenticator, request) == expected


async def test_date_header_replaces_a_missing_x_amz_date(authenticator: SignatureAuthenticator) -> None:
    """Clients that cannot set `x-amz-date` sign `Date`."""
    request = sign("GET", "/bucket")
    with_date = dict(request.headers)
    with_date["date"] = "Thu, 29 Feb 2024 12:00:00 GMT"
    del with_date["x-amz-date"]
    # The date is accepted; the signature does not match, because it is over x-amz-date.
    with_date["authorization"] = with_date["authorization"].replace(";x-amz-date", "")
    assert await error_of(authenticator, received("GET", "/bucket", "", with_date)) == "403 SignatureDoesNotMatch"
    del with_date["date"]
    assert await error_of(authenticator, received("GET", "/bucket", "", with_date)) == "403 AccessDenied"


async def test_scope_of_another_day_is_malformed(authenticator: SignatureAuthenticator) -> None:
    request = sign("GET", "/bucket")
    headers = dict(request.headers)
    headers["authorization"] = headers["authorization"].replace("/20240229/", "/20240228/")
    assert await error_of(authenticator, received("GET", "/bucket", "", headers)) == "400 AuthorizationHeaderMalformed"
    url = sign("GET", "/bucket", expires=60)
    query = url.raw_query.replace("20240229%2F", "20240228%2F")
    forged = received("GET", "/bucket", query)
    assert await error_of(authenticator, forged) == "400 AuthorizationQueryParametersError"


# -- signed headers and parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("expires", [None, 60], ids=["header", "url"])
async def test_amz_header_added_in_transit_is_rejected(
    authenticator: SignatureAuthenticator, expires: int | None
) -> None:
    request = sign("PUT", "/bucket/key", expires=expires)
    added = received("PUT", "/bucket/key", request.raw_query, {**request.headers, "x-amz-acl": "public-read"})
    assert await error_of(authenticator, added) == "403 AccessDenied"


async def test_other_headers_may_be_added_in_transit(authenticator: SignatureAuthenticator) -> None:
    request = sign("GET", "/bucket/key")
    added = received("GET", "/bucket/key", "", {**request.headers, "x-forwarded-for": "10.0.0.1", "via": "1.1 proxy"})
    assert (await authenticator.authenticate(added)).principal == ROOT


async def test_host_must_be_signed(authenticator: SignatureAuthenticator) -> None:
    request = sign("GET", "/bucket")
    headers = dict(request.headers)
    headers["authorization"] = headers["authorization"].replace("host;", "")
    assert await error_of(authenticator, received("GET", "/bucket", "", headers)) == "400 AuthorizationHeaderMalformed"
    url = sign("GET", "/bucket", expires=60)
    query = url.raw_query.replace("SignedHeaders=host", "SignedHeaders=date")
    forged = received("GET", "/bucket", query, {"date": "x"})
    assert await error_of(authenticator, forged) == "400 AuthorizationQueryParametersError"


async def test_payload_hash_is_required(authenticator: SignatureAuthenticator) -> None:
    request = sign("GET", "/bucket")
    headers = {name: value for name, value in request.headers.items() if name != "x-amz-content-sha256"}
    assert await error_of(authenticator, received("GET", "/bucket", "", headers)) == "400 InvalidRequest"


@pytest.mark.parametrize("missing", ["Credential", "Date", "Expires", "SignedHeaders", "Algorithm", "Signature"])
async def test_presigned_url_requires_all_its_parameters(authenticator: SignatureAuthenticator, missing: str) -> None:
    url = sign("GET", "/bucket", expires=60)
    query = "&".join(pair for pair in url.raw_query.split("&") if not pair.startswith(f"X-Amz-{missing}="))
    assert query != url.raw_query
    assert await error_of(authenticator, received("GET", "/bucket", query)) == "400 AuthorizationQueryParametersError"


async def test_header_and_query_authentication_together_are_rejected(authenticator: SignatureAuthenticator) -> None:
    url, header = sign("GET", "/bucket", expires=60), sign("GET", "/bucket")
    both = received("GET", "/bucket", url.raw_query, dict(header.headers))
    assert await error_of(authenticator, both) == "400 InvalidArgument"


@pytest.mark.parametrize(
    ("authorization", "query", "expected"),
    [
        ("AWS AKID:signature", "", "400 InvalidRequest"),
        ("AWS4-ECDSA-P256-SHA256 Credential=x", "", "400 InvalidRequest"),
        ("Basic dXNlcjpwYXNz", "", "400 InvalidArgument"),
        ("Bearer", "", "400 InvalidArgument"),
        ("", "AWSAccessKeyId=A&Signature=s&Expires=1", "400 InvalidRequest"),
    ],
)
async def test_other_authorization_mechanisms_are_rejected(
    authenticator: SignatureAuthenticator, authorization: str, query: str, expected: str
) -> None:
    headers = {"authorization": authorization} if authorization else {}
    assert await error_of(authenticator, received("GET", "/bucket", query, headers)) == expected


# -- payload claims -------------------------------------------------------------------------------------------------


def _resigned(claim: str, expires: int | None = None) -> Request:
    """A request signed with another payload hash."""

    class Signer(botocore.auth.S3SigV4Auth):  # type: ignore[misc]  # untyped library
        def payload(self, request: AWSRequest) -> str:
            return claim

    return sign("PUT", "/bucket/key", signer=Signer, expires=expires)


@pytest.mark.parametrize("kind", list(StreamingKind))
async def test_streaming_claims_have_kind_signer_and_seed_signature(
    authenticator: SignatureAuthenticator, kind: StreamingKind
) -> None:
    request = _resigned(kind.value)
    claim = (await authenticator.authenticate(request)).payload
    assert claim.streaming is kind
    assert claim.signer is not None
    assert claim.seed_signature == request.headers["authorization"].rpartition("Signature=")[2]


async def test_unsigned_payload_has_no_hash(authenticator: SignatureAuthenticator) -> None:
    claim = (await authenticator.authenticate(_resigned("UNSIGNED-PAYLOAD"))).payload
    assert (claim.sha256, claim.streaming) == (None, None)


async def test_payload_hash_in_upper_case_or_base64_is_normalized(authenticator: SignatureAuthenticator) -> None:
    for text in (EMPTY_SHA256.upper(), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="):
        assert (await authenticator.authenticate(_resigned(text))).payload.sha256 == EMPTY_SHA256


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("STREAMING-SOMETHING-ELSE", "501 NotImplemented"),
        ("nonsense", "400 InvalidArgument"),
        ("g" * 64, "400 InvalidArgument"),
        ("=" * 44, "400 InvalidArgument"),
    ],
)
async def test_unknown_payload_claims_are_rejected(
    authenticator: SignatureAuthenticator, claim: str, expected: str
) -> None:
    assert await error_of(authenticator, _resigned(claim)) == expected


async def test_signed_stream_of_an_anonymous_request_is_rejected(authenticator: SignatureAuthenticator) -> None:
    headers = {"x-amz-content-sha256": StreamingKind.SIGNED.value}
    assert await error_of(authenticator, received("PUT", "/bucket/key", "", headers)) == "400 InvalidRequest"


# -- random input ---------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    authorization=st.text(max_size=60) | st.builds("AWS4-HMAC-SHA256 {}".format, st.text(max_size=60)),
    date=st.text(max_size=20) | st.just("20240229T120000Z") | st.just("Thu, 29 Feb 2024 12:00:00 GMT"),
    claim=st.text(max_size=70),
)
async def test_random_headers_are_rejected(authorization: str, date: str, claim: str) -> None:
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round(NOW.timestamp() * 1000)))
    headers = {"authorization": authorization, "date": date, "x-amz-content-sha256": claim}
    with pytest.raises(AwsFault):
        await authenticator.authenticate(received("GET", "/bucket", "", headers))


@settings(max_examples=150)
@given(
    values=st.fixed_dictionaries(
        {
            "X-Amz-Algorithm": st.just("AWS4-HMAC-SHA256") | st.text(max_size=20),
            "X-Amz-Credential": st.just(f"{ACCESS_KEY}/20240229/us-east-1/s3/aws4_request") | st.text(max_size=60),
            "X-Amz-Date": st.just("20240229T120000Z") | st.text(max_size=16),
            "X-Amz-Expires": st.integers().map(str) | st.text(max_size=10) | st.text("0123456789-²", min_size=1),
            "X-Amz-SignedHeaders": st.just("host") | st.text(max_size=10),
            "X-Amz-Signature": st.text("0123456789abcdef", min_size=64, max_size=64) | st.text(max_size=64),
        }
    )
)
async def test_random_parameters_are_rejected(values: dict[str, str]) -> None:
    authenticator = SignatureAuthenticator(Keys(), ManualClock(round(NOW.timestamp() * 1000)))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items())
    with pytest.raises((AwsFault, InvalidInput)):
        await authenticator.authenticate(received("GET", "/bucket", query))


# -- forms ----------------------------------------------------------------------------------------------------------


async def test_post_form_is_verified_over_its_policy(authenticator: SignatureAuthenticator) -> None:
    credential = f"{ACCESS_KEY}/20240229/us-east-1/s3/aws4_request"
    document = "eyJleHBpcmF0aW9uIjoiIn0="
    signature = SigningKey(Secret(SECRET_KEY), parse_scope(credential)).sign(document)
    date = "20240229T120000Z"
    assert await authenticator.verify_form(credential, date, signature, document, None) == ROOT
    for arguments, expected in (
        ((credential, date, signature, document + "x", None), "403 SignatureDoesNotMatch"),
        ((credential, date, "é", document, None), "403 SignatureDoesNotMatch"),
        ((credential.replace(ACCESS_KEY, "UNKNOWN"), date, signature, document, None), "403 InvalidAccessKeyId"),
        (("nonsense", date, signature, document, None), "400 InvalidArgument"),
        ((credential, "today", signature, document, None), "400 InvalidArgument"),
    ):
        with pytest.raises(AwsFault) as error:
            await authenticator.verify_form(*arguments)
        assert f"{error.value.status} {error.value.code}" == expected

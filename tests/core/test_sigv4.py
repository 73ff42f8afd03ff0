from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.secrets import Secret
from lakebed.core.sigv4 import canonical_query, encode_segment, signed_headers

AT = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
NOW_MS = round(AT.timestamp() * 1000)
SECRET = Secret("a/secret+key")
TOKEN = Secret("token")


@dataclass
class Keys:
    access_key_id: str = "AKID"
    secret_access_key: Secret = SECRET
    session_token: Secret | None = TOKEN


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE"])
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC))
HEADERS = st.dictionaries(
    st.sampled_from(["accept", "content-type", "x-amz-something", "idempotency-key"]),
    st.text("abcXYZ019/;=-", min_size=1, max_size=20),
)


@given(
    method=METHODS,
    segments=st.lists(NAMES, max_size=4),
    query=st.dictionaries(NAMES, TEXTS, max_size=4),
    headers=HEADERS,
    body=st.binary(max_size=64),
    token=st.none() | st.just("session-token"),
    at=MOMENTS,
)
def test_s3_signature_matches_the_sdk(
    method: str,
    segments: list[str],
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes,
    token: str | None,
    at: datetime,
) -> None:
    path = "/" + "/".join(map(encode_segment, segments))
    sent_query = canonical_query(query.items())
    ours = signed_headers(
        method,
        host="lake.example:9000",
        path=path,
        query=sent_query,
        headers=headers,
        body=body,
        region="eu-west-1",
        service="s3",
        credentials=Keys(session_token=None if token is None else Secret(token)),
        now_ms=round(at.timestamp() * 1000),
    )
    url = f"http://lake.example:9000{path}" + (f"?{sent_query}" if sent_query else "")
    request = AWSRequest(method, url, data=body, headers=headers)
    # Otherwise the SDK leaves the body of a request over TLS unsigned.
    request.context["payload_signing_enabled"] = True
    with patch("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None)):
        S3SigV4Auth(Credentials("AKID", "a/secret+key", token), "s3", "eu-west-1").add_auth(request)
    assert ours["authorization"] == request.headers["Authorization"]
    assert ours["x-amz-content-sha256"] == request.headers["X-Amz-Content-SHA256"]


@given(TEXTS)
def test_encoded_segment_stays_one_segment(text: str) -> None:
    encoded = encode_segment(text)
    assert not set("/?#% ") & set(encoded.replace("%", "")) - set("%")
    assert encoded.isascii()


@pytest.mark.parametrize("service", ["s3tables", "glue"])
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", ""),
        ("/iceberg/v1/config", "warehouse=arn%3Aaws%3As3tables%3A%3A%3Abucket%2Flake"),
        ("/iceberg/v1/lake/namespaces/a%1Fb/tables/t%20x", "snapshots=refs&b=1&a=%2F"),
    ],
)
def test_signatures_of_other_services_match_the_sdk(
    service: str, path: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: AT.replace(tzinfo=None))
    url = f"https://catalog.example{path}" + (f"?{query}" if query else "")
    request = AWSRequest("GET", url, headers={"accept": "application/json"})
    SigV4Auth(Credentials("AKID", "a/secret+key", "token"), service, "eu-west-1").add_auth(request)
    ours = signed_headers(
        "GET",
        host="catalog.example",
        path=path,
        query=query,
        headers={"accept": "application/json"},
        region="eu-west-1",
        service=service,
        credentials=Keys(),
        now_ms=NOW_MS,
    )
    assert ours["authorization"] == request.headers["Authorization"]


def test_body_is_signed() -> None:
    one, other = (
        signed_headers("POST", host="h", body=body, region="r", service="sts", credentials=Keys(), now_ms=NOW_MS)[
            "authorization"
        ]
        for body in (b"Action=A", b"Action=B")
    )
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in one
    assert one != other


def test_signed_headers_contain_no_secrets() -> None:
    keys = Keys(secret_access_key=Secret("do-not-show"))
    ours = signed_headers("GET", host="h", region="r", service="s3", credentials=keys, now_ms=0)
    assert "do-not-show" not in "".join(ours.values())

"""Temporary credentials from STS."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.secrets import Secret
from lakebed.core.sigv4 import signed_headers
from lakebed.net.http import HttpRequest
from lakebed.storage.credentials import Credentials
from lakebed.storage.credentials.sts import FORM_TYPE, AssumedRole, TokenService, parse_credentials, parse_error
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server

from .fakes import HOUR_MS, NOW_MS, machine, network_to, sts_error, sts_response

ROLE = AssumedRole("arn:aws:iam::1:role/r", "session")
BASE = Credentials("AKIABASE", Secret("base-secret"), Secret("base-token"))


@settings(max_examples=40)
@given(
    form=st.binary(max_size=50),
    region=st.from_regex(r"[a-z]{2}-[a-z]{4,9}-[0-9]", fullmatch=True),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    token=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    now_ms=st.integers(1_000_000_000_000, 2_000_000_000_000),
)
def test_signature_equals_that_of_botocore(
    form: bytes, region: str, secret: str, token: str | None, now_ms: int
) -> None:
    credentials = Credentials("AKIAID", Secret(secret), Secret(token) if token else None)
    host = f"sts.{region}.amazonaws.com"
    ours = signed_headers(
        "POST",
        host=host,
        headers={"content-type": FORM_TYPE},
        body=form,
        region=region,
        service="sts",
        credentials=credentials,
        now_ms=now_ms,
    )
    request = AWSRequest("POST", f"https://{host}/", {"content-type": ours["content-type"]}, form)
    with pytest.MonkeyPatch.context() as patch:
        moment = datetime.fromtimestamp(now_ms // 1000, UTC)
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_: moment)
        botocore.auth.SigV4Auth(ReadOnlyCredentials("AKIAID", secret, token), "sts", region).add_auth(request)
    assert ours["authorization"] == request.headers["Authorization"]
    assert ours["x-amz-date"] == request.headers["X-Amz-Date"]


async def test_role_is_assumed_with_a_signed_request() -> None:
    with scripted_server(lambda _: ScriptedResponse(200, sts_response())) as server:
        service = TokenService(machine(http=network_to(server.url)), "eu-west-1")
        role = AssumedRole(ROLE.arn, ROLE.session_name, 900, "external")
        loaded = await service.assume_role(BASE, role, "profile")
    assert loaded.access_key_id == "ASIAROLE"
    assert loaded.expires_ms == NOW_MS + HOUR_MS
    (request,) = server.requests
    assert request.headers["host"] == "sts.eu-west-1.amazonaws.com"
    assert "Credential=AKIABASE/20231114/eu-west-1/sts/aws4_request" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "base-token"
    assert parse_qs(request.body.decode()) == {
        "Action": ["AssumeRole"],
        "Version": ["2011-06-15"],
        "RoleArn": [ROLE.arn],
        "RoleSessionName": ["session"],
        "DurationSeconds": ["900"],
        "ExternalId": ["external"],
    }


@pytest.mark.parametrize(
    ("environ", "region", "endpoint"),
    [
        ({}, "eu-west-1", "https://sts.eu-west-1.amazonaws.com"),
        ({}, "cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn"),
        ({}, None, "https://sts.amazonaws.com"),
        ({"AWS_ENDPOINT_URL_STS": "https://sts.example.org/"}, "eu-west-1", "https://sts.example.org"),
        ({"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:9000"}, "eu-west-1", "http://127.0.0.1:9000"),
    ],
)
def test_endpoint_depends_on_region_and_environment(environ: dict[str, str], region: str | None, endpoint: str) -> None:
    assert TokenService(machine(environ), region).endpoint == endpoint


def test_given_endpoint_is_used() -> None:
    around = machine({"AWS_ENDPOINT_URL_STS": "https://sts.example.org"})
    assert TokenService(around, "eu-west-1", "http://store.example:9000/").endpoint == "http://store.example:9000"


@pytest.mark.parametrize(
    ("environ", "region"),
    [({"AWS_ENDPOINT_URL_STS": "http://sts.example.org"}, "eu-west-1"), ({}, "evil.example.org/"), ({}, "")],
)
def test_endpoint_without_tls_is_rejected(environ: dict[str, str], region: str) -> None:
    with pytest.raises(InvalidSetting):
        _ = TokenService(machine(environ), region).endpoint


async def test_failures_are_retried_and_rejections_are_not() -> None:
    with scripted_server(lambda _: ScriptedResponse(500)) as failing, pytest.raises(Unavailable):
        await TokenService(machine(http=network_to(failing.url)), "eu-west-1").assume_role(BASE, ROLE, "p")
    assert len(failing.requests) == 3
    refused = ScriptedResponse(403, sts_error("AccessDenied"))
    with scripted_server(lambda _: refused) as refusing, pytest.raises(AccessDenied):
        await TokenService(machine(http=network_to(refusing.url)), "eu-west-1").assume_role(BASE, ROLE, "p")
    assert len(refusing.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", AccessDenied),
        (400, "ExpiredTokenException", Unauthenticated),
        (400, "InvalidIdentityToken", Unauthenticated),
        (400, "IDPCommunicationError", Unavailable),
        (400, "PackedPolicyTooLarge", InvalidInput),
        (400, "InvalidParameterValue", InvalidInput),
        (400, "Throttling", Throttled),
        (429, "", Throttled),
        (503, "", Unavailable),
        (400, "", Unauthenticated),
    ],
)
def test_error_response_is_mapped(status: int, code: str, kind: type[LakebedError]) -> None:
    assert type(parse_error(status, sts_error(code), "test")) is kind


def test_error_does_not_contain_the_response_message() -> None:
    error = parse_error(400, sts_error("hidden token", "hidden token"), "test")
    assert "hidden" not in str(error)


@given(st.binary())
def test_invalid_response_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_credentials(body, "test")


def test_document_with_entities_is_rejected() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY x "ASIA">]>' + sts_response("&x;")
    with pytest.raises(Unavailable):
        parse_credentials(bomb, "test")


def test_repr_of_request_does_not_contain_the_token() -> None:
    request = HttpRequest("POST", "https://sts/", {"authorization": "hidden"}, b"hidden")
    assert "hidden" not in repr(request)

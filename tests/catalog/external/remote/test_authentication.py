from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from lakebed.catalog.external.remote.authentication import (
    Authentication,
    UnsignedRequest,
    make_authentication,
)
from lakebed.catalog.external.remote.model import NO_SECRETS, AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets
from lakebed.core.clock import ManualClock
from lakebed.core.errors import ExternalCatalogError
from lakebed.core.secrets import Secret
from lakebed.net.sync_client import threaded_http
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, ScriptedServer, scripted_server
from tests.storage.credentials.fakes import machine

ADDRESS = RemoteAddress("https://far.example")
ROLE = RemoteAuth(
    kind=AuthKind.SIGV4,
    role_arn="arn:aws:iam::123456789012:role/r",
    external_id="e-1",
    session_policy='{"Version": "2012-10-17"}',
    region="us-east-1",
    service="glue",
)
REQUEST = UnsignedRequest("POST", "far.example", "/v1/x", "a=b", {"accept": "application/json"}, b"{}")
ASSUMED = """<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASSUMED{n}</AccessKeyId>
<SecretAccessKey>s3cret</SecretAccessKey><SessionToken>session{n}</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def by_role(sts: ScriptedServer, clock: ManualClock) -> Authentication:
    environ = {"AWS_ACCESS_KEY_ID": "OWN", "AWS_SECRET_ACCESS_KEY": "own-secret", "AWS_ENDPOINT_URL_STS": sts.url}
    return make_authentication(
        threaded_http(), clock, ADDRESS, ROLE, NO_SECRETS, machine(environ, http=threaded_http())
    )


async def test_role_is_assumed_with_the_servers_credentials_and_renewed_when_rejected() -> None:
    given = 0

    def script(request: ScriptedRequest) -> ScriptedResponse:
        nonlocal given
        given += 1
        return ScriptedResponse(200, ASSUMED.replace("{n}", str(given)).encode())

    with scripted_server(script) as sts:
        signing = by_role(sts, ManualClock())
        first = await signing.headers(REQUEST)
        assert "Credential=ASSUMED1/" in first["authorization"]
        assert first["x-amz-security-token"] == "session1"
        assert (await signing.headers(REQUEST))["authorization"] == first["authorization"]
        assert signing.renew(first)
        assert "Credential=ASSUMED2/" in (await signing.headers(REQUEST))["authorization"]
        # A late rejection of earlier credentials does not renew the present ones.
        assert signing.renew(first)
        assert "Credential=ASSUMED2/" in (await signing.headers(REQUEST))["authorization"]
    form = parse_qs(sts.requests[0].body.decode())
    assert form["RoleArn"] == [ROLE.role_arn]
    assert form["ExternalId"] == ["e-1"]
    assert form["Policy"] == [ROLE.session_policy]
    assert "Credential=OWN/" in sts.requests[0].headers["authorization"]


async def test_role_that_may_not_be_assumed_is_a_fault_of_the_connection() -> None:
    refused = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>s3cret</Message></Error></ErrorResponse>"
    with scripted_server(lambda _: ScriptedResponse(403, refused)) as sts, pytest.raises(ExternalCatalogError) as fault:
        await by_role(sts, ManualClock()).headers(REQUEST)
    assert "s3cret" not in str(fault.value)


async def test_access_key_of_a_connection_is_not_renewed() -> None:
    auth = RemoteAuth(kind=AuthKind.SIGV4, access_key_id="AK", region="r", service="s3")
    secrets = RemoteSecrets(secret_access_key=Secret("s3cret"))
    signing = make_authentication(threaded_http(), ManualClock(), ADDRESS, auth, secrets)
    sent = await signing.headers(REQUEST)
    assert "s3cret" not in str(sent)
    assert not signing.renew(sent)


async def test_no_authentication_adds_no_headers() -> None:
    authentication = make_authentication(threaded_http(), ManualClock(), ADDRESS, RemoteAuth(), NO_SECRETS)
    assert await authentication.headers(REQUEST) == REQUEST.headers
    assert not authentication.renew({})

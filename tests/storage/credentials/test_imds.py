"""Credentials from instance metadata."""

from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidSetting, LakebedError, Unauthenticated, Unavailable
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.net.sync_client import threaded_http
from lakebed.storage.credentials.imds import ROLES_PATH, TOKEN_PATH, InstanceMetadataSource
from tests.fixtures.scripted_http import Script, ScriptedRequest, ScriptedResponse, ScriptedServer, scripted_server

from .fakes import key_document, machine, network_to

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"


def metadata_service(request: ScriptedRequest) -> ScriptedResponse:
    """IMDSv2: session token, role name, credentials."""
    if request.method == "PUT" and request.path == TOKEN_PATH:
        return (
            ScriptedResponse(200, b"session-1")
            if "x-aws-ec2-metadata-token-ttl-seconds" in request.headers
            else ScriptedResponse(400)
        )
    if request.headers.get("x-aws-ec2-metadata-token") != "session-1":
        return ScriptedResponse(401)
    if request.path == ROLES_PATH:
        return ScriptedResponse(200, b"web-role\nother-role\n")
    if request.path == ROLES_PATH + "web-role":
        return ScriptedResponse(200, key_document(Code="Success"))
    return ScriptedResponse(404)


async def _load(server: ScriptedServer, *, v1_fallback: bool = False, **environ: str) -> object:
    around = machine({ENDPOINT: server.url + "/", **environ}, http=threaded_http())
    return await InstanceMetadataSource(around, v1_fallback).load()


async def test_credentials_are_requested_within_a_session() -> None:
    with scripted_server(metadata_service) as server:
        loaded = await _load(server)
    assert "ASIAFRES" in repr(loaded)
    token, role, keys = server.requests
    assert token.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert role.headers["x-aws-ec2-metadata-token"] == keys.headers["x-aws-ec2-metadata-token"] == "session-1"


@pytest.mark.parametrize(
    ("mode", "host"), [("", "169.254.169.254"), ("IPv4", "169.254.169.254"), ("IPv6", "[fd00:ec2::254]")]
)
async def test_address_follows_the_mode(mode: str, host: str) -> None:
    with scripted_server(metadata_service) as server:
        environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": mode}
        await InstanceMetadataSource(machine(environ, http=network_to(server.url))).load()
    assert {request.headers["host"] for request in server.requests} == {host}


@pytest.mark.parametrize("value", ["true", "TRUE"])
async def test_disabled_service_is_not_called(value: str) -> None:
    assert await InstanceMetadataSource(machine({"AWS_EC2_METADATA_DISABLED": value})).load() is None


def version_1_only(request: ScriptedRequest) -> ScriptedResponse:
    """A service without sessions."""
    if request.method == "PUT":
        return ScriptedResponse(405)
    return ScriptedResponse(200, b"web-role" if request.path == ROLES_PATH else key_document())


async def test_version_1_is_used_only_if_enabled() -> None:
    with scripted_server(version_1_only) as server:
        with pytest.raises(Unauthenticated):
            await _load(server)
        assert [request.method for request in server.requests] == ["PUT"]
        assert await _load(server, v1_fallback=True) is not None


async def test_version_1_is_used_if_the_session_request_times_out() -> None:
    with scripted_server(version_1_only) as server:
        send = threaded_http()

        async def lossy(request: HttpRequest) -> HttpResponse:
            if request.method == "PUT":
                raise Unavailable("no answer")
            return await send(request)

        around = machine({ENDPOINT: server.url}, http=lossy)
        assert await InstanceMetadataSource(around, True).load() is not None
        with pytest.raises(Unavailable):
            await InstanceMetadataSource(around, False).load()


def with_response(path: str, answer: ScriptedResponse) -> Script:
    """The service, with another response on one path."""
    return lambda request: answer if request.path == path else metadata_service(request)


@pytest.mark.parametrize(
    ("path", "answer", "kind"),
    [
        (TOKEN_PATH, ScriptedResponse(403), Unauthenticated),
        (TOKEN_PATH, ScriptedResponse(500), Unavailable),
        (TOKEN_PATH, ScriptedResponse(200, b""), Unavailable),
        (TOKEN_PATH, ScriptedResponse(200, b"a\r\nX-Evil: 1"), Unavailable),
        (ROLES_PATH, ScriptedResponse(404), Unauthenticated),
        (ROLES_PATH, ScriptedResponse(200, b""), Unauthenticated),
        (ROLES_PATH + "web-role", ScriptedResponse(404), Unauthenticated),
        (
            ROLES_PATH + "web-role",
            ScriptedResponse(200, key_document(Code="AssumeRoleUnauthorizedAccess")),
            Unavailable,
        ),
        (ROLES_PATH + "web-role", ScriptedResponse(200, b'{"Code": "Success"}'), Unavailable),
    ],
)
async def test_failure_at_any_step_is_an_error(path: str, answer: ScriptedResponse, kind: type[LakebedError]) -> None:
    with scripted_server(with_response(path, answer)) as server, pytest.raises(kind):
        await _load(server)


async def test_error_without_response_gives_advice() -> None:
    with pytest.raises(Unavailable, match="set keys in the settings"):
        await InstanceMetadataSource(machine()).load()


async def test_number_of_attempts_is_configurable() -> None:
    with scripted_server(lambda _: ScriptedResponse(500)) as server:
        with pytest.raises(Unavailable):
            await _load(server)
        assert len(server.requests) == 1
        with pytest.raises(Unavailable):
            await _load(server, AWS_METADATA_SERVICE_NUM_ATTEMPTS="3")
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_METADATA_SERVICE_TIMEOUT", "soon"),
        ("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "-1"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5"),
        (ENDPOINT, "169.254.169.254"),
    ],
)
async def test_invalid_setting_is_rejected_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{name}"):
        await InstanceMetadataSource(machine({name: value})).load()

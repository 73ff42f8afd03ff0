"""Credentials from the agent of a container platform."""

from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidSetting, Unauthenticated, Unavailable
from lakebed.net.sync_client import threaded_http
from lakebed.storage.credentials.container import ContainerSource, may_receive_token
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server

from .fakes import HOUR_MS, NOW_MS, key_document, machine, network_to

RELATIVE = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
FULL = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
TOKEN = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
TOKEN_FILE = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"


async def test_relative_uri_is_requested_from_the_ecs_agent_and_takes_precedence() -> None:
    with scripted_server(lambda _: ScriptedResponse(200, key_document())) as agent:
        environ = {RELATIVE: "/v2/credentials/x?y=1", FULL: "http://127.0.0.1:1/never"}
        loaded = await ContainerSource(machine(environ, http=network_to(agent.url))).load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAFRESH"
    assert loaded.secret_access_key.reveal() == "hidden-secret"
    assert loaded.session_token is not None
    assert loaded.session_token.reveal() == "hidden-token"
    assert loaded.expires_ms == NOW_MS + HOUR_MS
    (request,) = agent.requests
    assert (request.method, request.path, request.headers["host"]) == ("GET", "/v2/credentials/x?y=1", "169.254.170.2")
    assert "authorization" not in request.headers


async def test_full_uri_is_requested_with_the_current_token_of_the_file() -> None:
    files = {"/token": "first"}
    with scripted_server(lambda _: ScriptedResponse(200, key_document())) as agent:
        environ = {FULL: f"{agent.url}/creds", TOKEN: "never", TOKEN_FILE: "/token"}
        source = ContainerSource(machine(environ, files=files, http=threaded_http()))
        await source.load()
        files["/token"] = "second"
        await source.load()
    assert [request.headers["authorization"] for request in agent.requests] == ["first", "second"]


async def test_token_from_the_environment_is_sent() -> None:
    with scripted_server(lambda _: ScriptedResponse(200, key_document())) as agent:
        await ContainerSource(machine({FULL: agent.url, TOKEN: "Bearer x"}, http=threaded_http())).load()
    assert agent.requests[0].headers["authorization"] == "Bearer x"


@pytest.mark.parametrize("token", ["hidden\r\nX-Evil: 1", "hidden\n", "\rhidden"])
async def test_token_with_a_line_break_is_rejected(token: str) -> None:
    environ = {FULL: "http://127.0.0.1:1/", TOKEN: token}
    with pytest.raises(InvalidSetting) as refused:
        await ContainerSource(machine(environ)).load()
    assert "hidden" not in str(refused.value)
    environ = {FULL: "http://127.0.0.1:1/", TOKEN_FILE: "/token"}
    with pytest.raises(InvalidSetting):
        await ContainerSource(machine(environ, files={"/token": token})).load()


async def test_absent_token_file_is_an_error() -> None:
    with pytest.raises(Unauthenticated):
        await ContainerSource(machine({FULL: "https://agent/", TOKEN_FILE: "/none"})).load()


@pytest.mark.parametrize(
    ("uri", "may"),
    [
        ("https://anywhere.example/creds", True),
        ("http://127.0.0.1:8080/creds", True),
        ("http://127.8.9.10/creds", True),
        ("http://localhost/creds", True),
        ("http://[::1]/creds", True),
        ("http://169.254.170.2/creds", True),
        ("http://169.254.170.23/creds", True),
        ("http://[fd00:ec2::23]/creds", True),
        ("http://169.254.169.254/creds", False),
        ("http://10.0.0.1/creds", False),
        ("http://example.org/creds", False),
        ("http://127.0.0.1@example.org/creds", False),
        ("http://localhost.example.org/creds", False),
        ("ftp://127.0.0.1/creds", False),
        ("https:///creds", False),
        ("http://[::1/creds", False),
        ("creds", False),
    ],
)
async def test_token_is_sent_only_over_tls_or_to_local_addresses(uri: str, may: bool) -> None:
    assert may_receive_token(uri) is may
    if not may:
        with pytest.raises(InvalidSetting):
            await ContainerSource(machine({FULL: uri})).load()


async def test_relative_uri_cannot_name_another_host() -> None:
    with pytest.raises(InvalidSetting):
        await ContainerSource(machine({RELATIVE: "@example.org/"})).load()


async def test_failing_agent_is_tried_three_times() -> None:
    with scripted_server(lambda _: ScriptedResponse(500)) as agent, pytest.raises(Unavailable):
        await ContainerSource(machine({FULL: agent.url}, http=threaded_http())).load()
    assert len(agent.requests) == 3


async def test_agent_that_fails_once_is_retried() -> None:
    answers = iter([ScriptedResponse(503), ScriptedResponse(200, key_document())])

    def fail_once(_: ScriptedRequest) -> ScriptedResponse:
        return next(answers)

    with scripted_server(fail_once) as agent:
        assert await ContainerSource(machine({FULL: agent.url}, http=threaded_http())).load() is not None


async def test_rejecting_agent_is_not_retried() -> None:
    with scripted_server(lambda _: ScriptedResponse(403)) as agent, pytest.raises(Unauthenticated):
        await ContainerSource(machine({FULL: agent.url}, http=threaded_http())).load()
    assert len(agent.requests) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"AccessKeyId": "hidden-id", "SecretAccessKey": 5}', b"\xff"])
async def test_invalid_response_is_an_error_without_its_text(body: bytes) -> None:
    with scripted_server(lambda _: ScriptedResponse(200, body)) as agent, pytest.raises(Unavailable) as refused:
        await ContainerSource(machine({FULL: agent.url}, http=threaded_http())).load()
    assert "hidden" not in str(refused.value)


async def test_source_does_not_apply_outside_a_container() -> None:
    assert await ContainerSource(machine()).load() is None

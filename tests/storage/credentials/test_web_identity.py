"""Credentials for a Kubernetes service account token."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from lakebed.core.errors import InvalidSetting, Unauthenticated, Unavailable
from lakebed.net.sync_client import threaded_http
from lakebed.storage.credentials.web_identity import WebIdentitySource
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server

from .fakes import NOW_MS, machine, network_to, sts_error, sts_response

ENVIRON = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}
ANSWER = ScriptedResponse(200, sts_response(action="AssumeRoleWithWebIdentity"))


async def test_token_is_exchanged_in_an_unsigned_request() -> None:
    with scripted_server(lambda _: ANSWER) as server:
        around = machine(
            {**ENVIRON, "AWS_ROLE_SESSION_NAME": "me"}, files={"/token": "jwt\n"}, http=network_to(server.url)
        )
        loaded = await WebIdentitySource(around, "eu-west-1").load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAROLE"
    (request,) = server.requests
    assert request.headers["host"] == "sts.eu-west-1.amazonaws.com"
    assert "authorization" not in request.headers
    assert parse_qs(request.body.decode()) == {
        "Action": ["AssumeRoleWithWebIdentity"],
        "Version": ["2011-06-15"],
        "RoleArn": ["arn:aws:iam::1:role/r"],
        "RoleSessionName": ["me"],
        "WebIdentityToken": ["jwt"],
        "DurationSeconds": ["3600"],
    }


async def test_token_file_is_read_again_at_every_refresh() -> None:
    files = {"/token": "first"}
    with scripted_server(lambda _: ANSWER) as server:
        around = machine({**ENVIRON, "AWS_ENDPOINT_URL_STS": server.url}, files=files, http=threaded_http())
        source = WebIdentitySource(around)
        await source.load()
        files["/token"] = "second"
        await source.load()
    sent = [parse_qs(request.body.decode()) for request in server.requests]
    assert [form["WebIdentityToken"] for form in sent] == [["first"], ["second"]]
    assert sent[0]["RoleSessionName"] == [f"lakebed-{NOW_MS}"]


async def test_region_of_the_environment_is_used() -> None:
    with scripted_server(lambda _: ANSWER) as server:
        around = machine({**ENVIRON, "AWS_REGION": "us-west-2"}, files={"/token": "t"}, http=network_to(server.url))
        await WebIdentitySource(around).load()
    assert server.requests[0].headers["host"] == "sts.us-west-2.amazonaws.com"


async def test_source_does_not_apply_without_a_token_file() -> None:
    assert await WebIdentitySource(machine({"AWS_ROLE_ARN": "r"})).load() is None


async def test_token_file_without_a_role_is_an_error() -> None:
    with pytest.raises(InvalidSetting, match=r"^AWS_ROLE_ARN:"):
        await WebIdentitySource(machine({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"})).load()


@pytest.mark.parametrize("files", [{}, {"/token": " \n"}])
async def test_absent_or_empty_token_is_an_error(files: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        await WebIdentitySource(machine(ENVIRON, files=files)).load()


async def test_errors_do_not_contain_the_token() -> None:
    with scripted_server(
        lambda _: ScriptedResponse(400, sts_error("InvalidIdentityToken", "bad token hidden-jwt"))
    ) as server:
        around = machine(
            {**ENVIRON, "AWS_ENDPOINT_URL_STS": server.url}, files={"/token": "hidden-jwt"}, http=threaded_http()
        )
        with pytest.raises(Unauthenticated) as refused:
            await WebIdentitySource(around).load()
    assert "hidden" not in repr(refused.value)
    with pytest.raises(Unavailable) as silent:
        await WebIdentitySource(machine(ENVIRON, files={"/token": "hidden-jwt"})).load()
    assert "hidden" not in repr(silent.value)

"""Keys of the machine's own role."""

from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidSetting, LakebedError, Unauthenticated, Unavailable
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.net.sync_client import threaded_http
from lakebed.storage.credentials.imds import ROLES_PATH, TOKEN_PATH, InstanceMetadataSource
from tests.fixtures.scripted_http import Answer, Asked, Script, ScriptedServer, scripted_server

from .fakes import key_document, machine, network_to

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"


def metadata_service(asked: Asked) -> Answer:
    """IMDSv2: a session first, then the role's name, then its keys."""
    if asked.method == "PUT" and asked.path == TOKEN_PATH:
        return Answer(200, b"session-1") if "x-aws-ec2-metadata-token-ttl-seconds" in asked.headers else Answer(400)
    if asked.headers.get("x-aws-ec2-metadata-token") != "session-1":
        return Answer(401)
    if asked.path == ROLES_PATH:
        return Answer(200, b"web-role\nother-role\n")
    if asked.path == ROLES_PATH + "web-role":
        return Answer(200, key_document(Code="Success"))
    return Answer(404)


async def _load(server: ScriptedServer, *, v1_fallback: bool = False, **environ: str) -> object:
    around = machine({ENDPOINT: server.url + "/", **environ}, http=threaded_http())
    return await InstanceMetadataSource(around, v1_fallback).load()


async def test_keys_are_asked_for_within_a_session() -> None:
    with scripted_server(metadata_service) as server:
        loaded = await _load(server)
    assert "ASIAFRES" in repr(loaded)
    token, role, keys = server.asked
    assert token.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert role.headers["x-aws-ec2-metadata-token"] == keys.headers["x-aws-ec2-metadata-token"] == "session-1"


@pytest.mark.parametrize(
    ("mode", "host"), [("", "169.254.169.254"), ("IPv4", "169.254.169.254"), ("IPv6", "[fd00:ec2::254]")]
)
async def test_address_follows_the_mode(mode: str, host: str) -> None:
    with scripted_server(metadata_service) as server:
        environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": mode}
        await InstanceMetadataSource(machine(environ, http=network_to(server.url))).load()
    assert {asked.headers["host"] for asked in server.asked} == {host}


@pytest.mark.parametrize("value", ["true", "TRUE"])
async def test_disabled_service_is_not_asked(value: str) -> None:
    assert await InstanceMetadataSource(machine({"AWS_EC2_METADATA_DISABLED": value})).load() is None


def version_1_only(asked: Asked) -> Answer:
    """A service that knows no sessions."""
    if asked.method == "PUT":
        return Answer(405)
    return Answer(200, b"web-role" if asked.path == ROLES_PATH else key_document())


async def test_version_1_is_spoken_only_when_asked_for() -> None:
    with scripted_server(version_1_only) as server:
        with pytest.raises(Unauthenticated):
            await _load(server)
        assert [asked.method for asked in server.asked] == ["PUT"]
        assert await _load(server, v1_fallback=True) is not None


async def test_version_1_is_spoken_where_the_session_request_is_lost() -> None:
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


def with_answer(path: str, answer: Answer) -> Script:
    """The service, but for one path."""
    return lambda asked: answer if asked.path == path else metadata_service(asked)


@pytest.mark.parametrize(
    ("path", "answer", "kind"),
    [
        (TOKEN_PATH, Answer(403), Unauthenticated),
        (TOKEN_PATH, Answer(500), Unavailable),
        (TOKEN_PATH, Answer(200, b""), Unavailable),
        (TOKEN_PATH, Answer(200, b"a\r\nX-Evil: 1"), Unavailable),
        (ROLES_PATH, Answer(404), Unauthenticated),
        (ROLES_PATH, Answer(200, b""), Unauthenticated),
        (ROLES_PATH + "web-role", Answer(404), Unauthenticated),
        (ROLES_PATH + "web-role", Answer(200, key_document(Code="AssumeRoleUnauthorizedAccess")), Unavailable),
        (ROLES_PATH + "web-role", Answer(200, b'{"Code": "Success"}'), Unavailable),
    ],
)
async def test_failure_at_any_step_is_an_error(path: str, answer: Answer, kind: type[LakebedError]) -> None:
    with scripted_server(with_answer(path, answer)) as server, pytest.raises(kind):
        await _load(server)


async def test_silence_says_what_to_do() -> None:
    with pytest.raises(Unavailable, match="set keys in the settings"):
        await InstanceMetadataSource(machine()).load()


async def test_service_is_tried_as_often_as_told() -> None:
    with scripted_server(lambda _: Answer(500)) as server:
        with pytest.raises(Unavailable):
            await _load(server)
        assert len(server.asked) == 1
        with pytest.raises(Unavailable):
            await _load(server, AWS_METADATA_SERVICE_NUM_ATTEMPTS="3")
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_METADATA_SERVICE_TIMEOUT", "soon"),
        ("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "-1"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5"),
        (ENDPOINT, "169.254.169.254"),
    ],
)
async def test_setting_that_cannot_be_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{name}"):
        await InstanceMetadataSource(machine({name: value})).load()

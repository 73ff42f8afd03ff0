"""Credentials from a profile."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest

from lakebed.core.errors import InvalidSetting, LakebedError, NotSupported, Unauthenticated, Unavailable
from lakebed.storage.credentials import HostEnvironment
from lakebed.storage.credentials.profile import ProfileSource, find_region
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server

from .fakes import HOUR_MS, NOW_MS, iso, key_document, machine, network_to, sts_response

KEYS = "aws_access_key_id = AKIAWRITTEN\naws_secret_access_key = hidden-secret\n"
CREDENTIALS_FILE = "/home/me/.aws/credentials"
CONFIG_FILE = "/home/me/.aws/config"


def at_home(
    config: str = "", credentials: str = "", *, environ: dict[str, str] | None = None, **more: object
) -> HostEnvironment:
    """A machine with these files in the default locations."""
    files = {CONFIG_FILE: config, CREDENTIALS_FILE: credentials}
    return machine({"HOME": "/home/me", **(environ or {})}, files=files, **more)  # type: ignore[arg-type]  # passed on


async def test_static_keys_of_the_default_profile_are_used() -> None:
    loaded = await ProfileSource(at_home(credentials=f"[default]\n{KEYS}aws_session_token = hidden-token\n")).load()
    assert loaded is not None
    assert loaded.access_key_id == "AKIAWRITTEN"
    assert loaded.secret_access_key.reveal() == "hidden-secret"
    assert loaded.session_token is not None
    assert loaded.expires_ms is None


async def test_profile_and_files_are_chosen_by_the_environment() -> None:
    environ = {
        "HOME": "/home/me",
        "AWS_PROFILE": "work",
        "AWS_SHARED_CREDENTIALS_FILE": "~/elsewhere",
        "AWS_CONFIG_FILE": "/etc/aws",
    }
    files = {"/home/me/elsewhere": f"[work]\n{KEYS}", "/etc/aws": "[profile work]\nregion = eu-north-1\n"}
    host = machine(environ, files=files)
    loaded = await ProfileSource(host).load()
    assert loaded is not None
    assert loaded.access_key_id == "AKIAWRITTEN"
    assert await find_region(host) == "eu-north-1"


@pytest.mark.parametrize(
    "host",
    [machine(), at_home(), at_home("[default]\nregion = eu-west-1\n"), at_home(credentials=f"[other]\n{KEYS}")],
)
async def test_source_does_not_apply_without_a_profile_with_credentials(host: HostEnvironment) -> None:
    assert await ProfileSource(host).load() is None


async def test_credential_process_returns_credentials() -> None:
    output = {
        "Version": 1,
        "AccessKeyId": "ASIAPRINTED",
        "SecretAccessKey": "hidden-secret",
        "SessionToken": "hidden-token",
        "Expiration": iso(NOW_MS + HOUR_MS),
    }
    config = "[default]\ncredential_process = /opt/helper --for 'me too'\n"
    host = at_home(config, prints={"/opt/helper --for 'me too'": json.dumps(output).encode()})
    loaded = await ProfileSource(host).load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAPRINTED"
    assert loaded.session_token is not None
    assert loaded.expires_ms == NOW_MS + HOUR_MS


@pytest.mark.parametrize("output", [b"", b"hidden", b'{"Version": 2}', b'{"Version": 1}', b"[]"])
async def test_invalid_output_of_credential_process_is_an_error(output: bytes) -> None:
    with pytest.raises(Unavailable) as refused:
        await ProfileSource(at_home("[default]\ncredential_process = helper\n", prints={"helper": output})).load()
    assert "hidden" not in repr(refused.value)


async def test_role_is_assumed_with_the_keys_of_another_profile() -> None:
    config = (
        "[default]\nrole_arn = arn:role/b\nsource_profile = base\nregion = eu-west-1\nexternal_id = e\n"
        "role_session_name = me\nduration_seconds = 1800\n"
    )
    with scripted_server(lambda _: ScriptedResponse(200, sts_response())) as server:
        loaded = await ProfileSource(at_home(config, f"[base]\n{KEYS}", http=network_to(server.url))).load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAROLE"
    (request,) = server.requests
    assert request.headers["host"] == "sts.eu-west-1.amazonaws.com"
    assert "Credential=AKIAWRITTEN/" in request.headers["authorization"]
    form = parse_qs(request.body.decode())
    assert (form["RoleArn"], form["ExternalId"], form["RoleSessionName"]) == (["arn:role/b"], ["e"], ["me"])
    assert form["DurationSeconds"] == ["1800"]


async def test_role_chains_are_followed() -> None:
    config = (
        "[default]\nrole_arn = outer\nsource_profile = middle\n"
        "[profile middle]\nrole_arn = inner\nsource_profile = middle\n"
    )
    answers = iter([sts_response("ASIAINNER"), sts_response("ASIAOUTER")])
    with scripted_server(lambda _: ScriptedResponse(200, next(answers))) as server:
        host = at_home(config, f"[middle]\n{KEYS}", http=network_to(server.url))
        loaded = await ProfileSource(host, "eu-west-1").load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAOUTER"
    signers = [request.headers["authorization"] for request in server.requests]
    assert "AKIAWRITTEN" in signers[0]
    assert "ASIAINNER" in signers[1]


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("Environment", {"AWS_ACCESS_KEY_ID": "ASIAFRESH", "AWS_SECRET_ACCESS_KEY": "s"}),
        ("EcsContainer", {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/creds"}),
        ("Ec2InstanceMetadata", {}),
    ],
)
async def test_role_is_assumed_with_the_keys_of_a_named_source(name: str, environ: dict[str, str]) -> None:
    def all_services(request: object) -> ScriptedResponse:
        path = getattr(request, "path", "")
        if path == "/":
            return ScriptedResponse(200, sts_response())
        return ScriptedResponse(
            200, b"session" if "token" in path else b"role" if path.endswith("/") else key_document()
        )

    config = f"[default]\nrole_arn = arn:role/b\ncredential_source = {name}\n"
    with scripted_server(all_services) as server:
        loaded = await ProfileSource(at_home(config, environ=environ, http=network_to(server.url))).load()
    assert loaded is not None
    assert loaded.access_key_id == "ASIAROLE"
    assert "Credential=ASIAFRESH/" in server.requests[-1].headers["authorization"]


async def test_role_with_a_token_file_requires_no_keys() -> None:
    files = {CONFIG_FILE: "[default]\nrole_arn = r\nweb_identity_token_file = /jwt\n", "/jwt": "token"}
    with scripted_server(lambda _: ScriptedResponse(200, sts_response(action="AssumeRoleWithWebIdentity"))) as server:
        loaded = await ProfileSource(machine({"HOME": "/home/me"}, files=files, http=network_to(server.url))).load()
    assert loaded is not None
    assert parse_qs(server.requests[0].body.decode())["WebIdentityToken"] == ["token"]


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ("[default]\naws_access_key_id = only\n", InvalidSetting, "aws_secret_access_key: missing"),
        ("[default]\naws_secret_access_key = hidden\n", InvalidSetting, "aws_access_key_id: missing"),
        ("[default]\nrole_arn = r\n", InvalidSetting, "source_profile or credential_source"),
        ("[default]\nrole_arn = r\nsource_profile = a\ncredential_source = Environment\n", InvalidSetting, "not both"),
        ("[default]\nrole_arn = r\nsource_profile = none\n", InvalidSetting, "no such profile"),
        ("[default]\nrole_arn = r\ncredential_source = Moon\n", InvalidSetting, "Moon"),
        ("[default]\nrole_arn = r\ncredential_source = Environment\n", Unauthenticated, "no credentials"),
        ("[default]\nrole_arn = r\nsource_profile = default\n", Unauthenticated, "no credentials"),
        ("[default]\nrole_arn = r\nsource_profile = a\nmfa_serial = m\n", NotSupported, "mfa_serial"),
        ("[default]\nrole_arn = r\nsource_profile = a\nduration_seconds = 1\n", InvalidSetting, "duration_seconds"),
        ("[default]\nsso_session = s\n", NotSupported, "sso_session"),
        (
            "[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nrole_arn = q\nsource_profile = default\n",
            InvalidSetting,
            "cycle",
        ),
    ],
)
async def test_invalid_profile_is_an_error(config: str, kind: type[LakebedError], message: str) -> None:
    with pytest.raises(kind, match=message) as refused:
        await ProfileSource(at_home(config)).load()
    assert "hidden" not in str(refused.value)


async def test_profile_named_by_aws_profile_must_exist() -> None:
    with pytest.raises(InvalidSetting, match=r"^AWS_PROFILE: no such profile"):
        await ProfileSource(at_home(environ={"AWS_PROFILE": "absent"})).load()


async def test_region_of_the_environment_takes_precedence_over_the_profile() -> None:
    config = "[default]\nregion = from-profile\n"
    assert await find_region(at_home(config)) == "from-profile"
    assert await find_region(at_home(config, environ={"AWS_DEFAULT_REGION": "older"})) == "older"
    assert await find_region(at_home(config, environ={"AWS_DEFAULT_REGION": "older", "AWS_REGION": "newer"})) == "newer"
    assert await find_region(machine()) is None

"""The credential chain."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lakebed.core.errors import AccessDenied, InvalidSetting, LakebedError, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import CredentialChain, Credentials, default_chain
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server

from .fakes import key_document, machine, network_to, sts_response


@dataclass
class Scripted:
    """A source with a scripted outcome that counts its loads."""

    name: str
    outcome: Credentials | LakebedError | None = None
    survives_outage: bool = False
    loads: int = field(default=0)

    async def load(self) -> Credentials | None:
        self.loads += 1
        if isinstance(self.outcome, LakebedError):
            raise self.outcome
        return self.outcome


def keys(name: str) -> Credentials:
    return Credentials(name, Secret("secret"), source=name)


async def test_first_source_that_applies_is_used() -> None:
    first, second, third = Scripted("first"), Scripted("second", keys("second")), Scripted("third", keys("third"))
    chain = CredentialChain([first, second, third])
    assert (await chain.load()).access_key_id == "second"
    assert chain.name == "second"
    assert third.loads == 0


async def test_selected_source_is_used_permanently() -> None:
    first, second, third = Scripted("first"), Scripted("second", keys("second")), Scripted("third", keys("third"))
    chain = CredentialChain([first, second, third])
    await chain.load()
    first.outcome = keys("first")
    assert (await chain.load()).access_key_id == "second"
    second.outcome = None
    with pytest.raises(Unauthenticated, match="sources=second"):
        await chain.load()
    assert (first.loads, third.loads) == (1, 0)


async def test_failing_source_is_an_error_and_ends_the_chain() -> None:
    last = Scripted("last", keys("last"))
    with pytest.raises(AccessDenied):
        await CredentialChain([Scripted("broken", AccessDenied("no")), last]).load()
    assert last.loads == 0


async def test_chain_survives_outages_as_the_selected_source() -> None:
    chain = CredentialChain([Scripted("imds", keys("k"), survives_outage=True)])
    assert not chain.survives_outage
    await chain.load()
    assert chain.survives_outage


async def test_error_without_credentials_lists_the_sources() -> None:
    with pytest.raises(Unauthenticated, match="sources=a, b"):
        await CredentialChain([Scripted("a"), Scripted("b")]).load()


def all_services(request: ScriptedRequest) -> ScriptedResponse:
    """Every network service at once: STS, the container agent, instance metadata."""
    if request.method == "POST":
        return ScriptedResponse(200, sts_response("WEB", action="AssumeRoleWithWebIdentity"))
    if request.path == "/creds":
        return ScriptedResponse(200, key_document("CONTAINER"))
    if request.method == "PUT":
        return ScriptedResponse(200, b"session")
    return ScriptedResponse(200, b"role" if request.path.endswith("/") else key_document("INSTANCE"))


ENVIRON = {
    "HOME": "/home/me",
    "AWS_ACCESS_KEY_ID": "ENVIRONMENT",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/jwt",
    "AWS_ROLE_ARN": "r",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/creds",
}
FILES = {
    "/home/me/.aws/credentials": "[default]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n",
    "/jwt": "jwt",
}


async def test_order_is_settings_environment_profile_web_identity_container_instance() -> None:
    environ, files = dict(ENVIRON), dict(FILES)
    found = []
    with scripted_server(all_services) as server:
        host = machine(environ, files=files, http=network_to(server.url))
        found.append(await default_chain(host, access_key_id="INLINE", secret_access_key=Secret("s")).load())
        for step in ("", "AWS_ACCESS_KEY_ID", "profile", "AWS_WEB_IDENTITY_TOKEN_FILE"):
            if step == "profile":
                del files["/home/me/.aws/credentials"]
            elif step:
                del environ[step]
            found.append(await default_chain(host).load())
        del environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
        found.append(await default_chain(host).load())
    assert [one.access_key_id for one in found] == ["INLINE", "ENVIRONMENT", "PROFILE", "WEB", "CONTAINER", "INSTANCE"]


async def test_machine_without_credentials_raises_unauthenticated() -> None:
    with pytest.raises(Unauthenticated, match="instance metadata"):
        await default_chain(machine({"AWS_EC2_METADATA_DISABLED": "true"})).load()


async def test_incomplete_keys_in_the_settings_do_not_fall_back_to_the_environment() -> None:
    with pytest.raises(InvalidSetting, match="secret_access_key"):
        await default_chain(machine(ENVIRON), access_key_id="id").load()

"""Credentials from the settings and the environment."""

from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.core.secrets import Secret
from lakebed.storage.credentials.environment import EnvironmentSource
from lakebed.storage.credentials.inline import InlineSource

from .fakes import NOW_MS, iso, machine


async def test_inline_keys_are_used() -> None:
    loaded = await InlineSource("id", Secret("secret"), Secret("token")).load()
    assert loaded is not None
    assert (loaded.access_key_id, loaded.secret_access_key.reveal()) == ("id", "secret")
    assert loaded.session_token is not None
    assert loaded.expires_ms is None


async def test_inline_does_not_apply_without_keys() -> None:
    assert await InlineSource(None, None).load() is None


@pytest.mark.parametrize(
    ("key_id", "secret", "missing"), [("id", None, "secret_access_key"), (None, Secret("s"), "access_key_id")]
)
async def test_incomplete_key_pair_names_the_missing_key(
    key_id: str | None, secret: Secret | None, missing: str
) -> None:
    with pytest.raises(InvalidSetting, match=f"^{missing}:"):
        await InlineSource(key_id, secret).load()


async def test_all_environment_variables_are_read() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_CREDENTIAL_EXPIRATION": iso(NOW_MS),
    }
    loaded = await EnvironmentSource(machine(environ)).load()
    assert loaded is not None
    assert loaded.access_key_id == "id"
    assert loaded.secret_access_key.reveal() == "secret"
    assert loaded.session_token is not None
    assert loaded.session_token.reveal() == "token"
    assert loaded.expires_ms == NOW_MS


async def test_older_variable_for_the_token_is_supported() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SECURITY_TOKEN": "old"}
    loaded = await EnvironmentSource(machine(environ)).load()
    assert loaded is not None
    assert loaded.session_token is not None
    assert loaded.session_token.reveal() == "old"


@pytest.mark.parametrize("environ", [{}, {"AWS_ACCESS_KEY_ID": ""}, {"AWS_SECRET_ACCESS_KEY": "secret"}])
async def test_environment_does_not_apply_without_a_key_id(environ: dict[str, str]) -> None:
    assert await EnvironmentSource(machine(environ)).load() is None


async def test_key_id_without_its_secret_is_an_error() -> None:
    with pytest.raises(InvalidSetting, match=r"^AWS_SECRET_ACCESS_KEY:"):
        await EnvironmentSource(machine({"AWS_ACCESS_KEY_ID": "id"})).load()


async def test_invalid_expiry_is_an_error() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s", "AWS_CREDENTIAL_EXPIRATION": "soon"}
    with pytest.raises(Unavailable):
        await EnvironmentSource(machine(environ)).load()

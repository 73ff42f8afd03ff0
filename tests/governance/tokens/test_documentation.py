"""docs/tokens.md agrees with the code."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from lakebed.core.settings import OidcProvider, Settings, SettingsFile, known_settings, load_settings
from lakebed.governance.tokens.model import TokenClaims
from lakebed.server.tokens import read_provider
from lakebed.wire.oauth.app import KEYS_PATH, TOKEN_PATHS
from lakebed.wire.oauth.errors import OAUTH_ERRORS

TEXT = (Path(__file__).parents[3] / "docs" / "tokens.md").read_text()
ROWS = re.findall(r"^\| `([a-z_.]+)` \| (?:`([^`]*)`|none) \|", TEXT, re.MULTILINE)


def test_example_settings_are_valid() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    loaded = load_settings(file=SettingsFile("lakebed.toml", example)).settings
    for name, stated in loaded.oidc.providers.items():
        provider = read_provider(name, stated)
        assert provider.roles.scope({"realm_access": {"roles": ["lake-reader", "x"]}}).roles == frozenset({"reader"})


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {path: default for path, default in ROWS if path.startswith(("tokens.", "oidc."))}
    assert documented.keys() == {path for path in known_settings() if path.startswith(("tokens.", "oidc."))}
    for path, default in documented.items():
        section, name = path.split(".")
        value = getattr(getattr(Settings(), section), name)
        shown = known_settings()[path].show(value).strip('"')
        assert shown == (default or "{}"), path
    for field in dataclasses.fields(OidcProvider):
        assert f"`{field.name}`" in TEXT


def test_every_claim_and_path_is_documented() -> None:
    for field in msgspec.structs.fields(TokenClaims):
        assert f"`{field.name}`" in TEXT
    assert KEYS_PATH in TEXT
    for path in TOKEN_PATHS:
        base = path.removesuffix("/v1/oauth/tokens")
        assert not base or f"`{base}`" in TEXT


@pytest.mark.parametrize("code", sorted({refusal.code for refusal in OAUTH_ERRORS.values() if refusal.status < 500}))
def test_every_error_code_is_documented(code: str) -> None:
    assert f"`{code}`" in TEXT

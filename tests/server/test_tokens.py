"""Tokens on running servers: several servers on one store, and a real identity provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.core.settings import OidcProvider
from lakebed.server.tokens import read_provider
from tests.clients.plain_http import Answer, fetch
from tests.clients.users import administer
from tests.fixtures.canaille import CLIENT_ID, OTHER_CLIENT_ID, PEOPLE, IdentityProvider, new_provider
from tests.fixtures.server import RunningServer, running_server, start_server
from tests.governance.tokens.forging import parts

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def request_token(server: RunningServer, secret: str | None = None) -> Answer:
    fields = {
        "grant_type": "client_credentials",
        "client_id": server.access_key,
        "client_secret": secret or server.secret_key,
    }
    url = f"{server.endpoint}/v1/oauth/tokens"
    return fetch("POST", url, headers=FORM, body=urlencode(fields).encode())


def token_of(server: RunningServer) -> str:
    token: str = json.loads(request_token(server).body)["access_token"]
    return token


def config(server: RunningServer, token: str) -> Answer:
    return fetch("GET", f"{server.endpoint}/iceberg/v1/config", headers={"Authorization": f"Bearer {token}"})


def key_of(token: str) -> str:
    key: str = parts(Secret(token))[0]["kid"]
    return key


def published(server: RunningServer) -> set[str]:
    answer = fetch("GET", f"{server.endpoint}/.well-known/jwks.json")
    return {key["kid"] for key in json.loads(answer.body)["keys"]}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name_claim": "a//b"}, "oidc.providers.x.name_claim: "),
        ({"roles_claim": '"a'}, "oidc.providers.x: roles: "),
        ({"roles_claim": "a", "roles_filter": "("}, "oidc.providers.x: roles: "),
    ],
)
def test_invalid_provider_settings_are_refused_by_their_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        read_provider("oidc.providers.x", OidcProvider(issuer="https://id.example", audiences=("a",), **change))
    assert str(refusal.value).startswith(path)


@pytest.mark.integration
@pytest.mark.slow
def test_signing_key_rotation_takes_effect_on_all_servers_of_a_store(tmp_path: Path, postgres_dsn: str) -> None:
    key = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb28="
    shared = {"LAKEBED_META__URL": postgres_dsn, "LAKEBED_ENCRYPTION__KEYS__SHARED": key}
    with ExitStack() as ends:
        servers = [start_server(tmp_path / name, environment=shared) for name in ("one", "other")]
        for server in servers:
            ends.callback(server.kill)
        one, other = servers
        before = token_of(one)
        assert [config(server, before).status for server in servers] == [200, 200]
        fresh = administer(one, "token-key", "rotate")["key"]
        after = [token_of(server) for server in servers]
        assert {key_of(token) for token in after} == {fresh}
        assert [config(server, before).status for server in servers] == [200, 200]
        assert [config(server, token).status for server, token in zip(servers, reversed(after), strict=True)] == [
            200,
            200,
        ]
        assert published(one) == published(other) == {key_of(before), fresh}
        administer(one, "token-key", "revoke", key_of(before))
        assert [config(server, before).status for server in servers] == [401, 401]
        assert [config(server, after[0]).status for server in servers] == [200, 200]
        assert published(other) == {fresh}
        listed = administer(one, "token-key", "list")
        assert [(row["key"], row["state"]) for row in listed] == [(fresh, "signs")]


@pytest.mark.integration
@pytest.mark.slow
def test_brute_force_is_throttled_with_429_and_its_secrets_are_not_logged(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", workers=1, LAKEBED_LOG__ACCESS="true", LAKEBED_LOG__LEVEL="debug") as server:
        token = token_of(server)
        spoiled = token[:-6] + "AAAAAA"
        assert [config(server, shown).status for shown in (token, spoiled)] == [200, 401]
        statuses = [request_token(server, f"a-guess-of-a-secret-{number}").status for number in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        assert server.log_text().count("/v1/oauth/tokens") >= 12
        assert "a-guess-of-a-secret" not in server.log_text()
        assert not any(part in server.log_text() for part in (*token.split("."), spoiled))
        assert server.secret_key not in server.log_text()


# -- an identity provider --------------------------------------------------------------------------------------------


def settings_file(path: Path, provider: IdentityProvider, *, mode: str = "mixed", more: str = "") -> Path:
    path.write_text(
        f'[tokens]\nmode = "{mode}"\n[oidc.providers.canaille]\nissuer = "{provider.issuer}"\n'
        f'audiences = ["{CLIENT_ID}"]\n{more}'
    )
    return path


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    started = new_provider(tmp_path / "provider")
    yield started
    started.stop()


@pytest.mark.integration
@pytest.mark.slow
def test_tokens_of_a_real_provider_are_accepted(tmp_path: Path, provider: IdentityProvider) -> None:
    given = settings_file(tmp_path / "lakebed.toml", provider)
    with running_server(tmp_path / "data", "--config", str(given)) as server:
        administer(server, "user", "create", "ada", "--policy", "readonly")
        ada, grace = provider.token("ada"), provider.token("grace")
        assert config(server, ada).status == 200
        # She has no user here.
        assert config(server, grace).status == 401
        # A token of another audience is refused.
        assert config(server, provider.token("ada", client=OTHER_CLIENT_ID)).status == 401
        assert config(server, token_of(server)).status == 200
        provider.change_keys()
        fresh = provider.token("ada")
        assert key_of(ada) != key_of(fresh)
        assert [config(server, token).status for token in (fresh, ada)] == [200, 200]
        administer(server, "user", "disable", "ada")
        assert [config(server, token).status for token in (ada, fresh)] == [401, 401]


@pytest.mark.integration
@pytest.mark.slow
def test_external_mode_provisions_users_and_refuses_tokens_of_the_server(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    given = settings_file(
        tmp_path / "lakebed.toml",
        provider,
        mode="external",
        more='create_users = true\nroles_claim = "groups"\nroles_filter = "lake-.*"\n'
        'roles_mappings = { "^lake-" = "PRINCIPAL_ROLE:" }\n',
    )
    with running_server(tmp_path / "data", "--config", str(given)) as server:
        assert request_token(server).status == 501
        for person in PEOPLE:
            assert config(server, provider.token(person)).status == 200
        names = {row["name"] for row in administer(server, "user", "list")}
        assert names == set(PEOPLE)
        denied = fetch(
            "GET",
            f"{server.endpoint}/lakebed/v1/tasks",
            headers={"Authorization": f"Bearer {provider.token('mallory')}"},
        )
        assert denied.status == 403
        # While the provider is down, tokens signed with a cached key are still accepted.
        token = provider.token("ada")
        assert config(server, token).status == 200
        provider.stop()
        assert config(server, token).status == 200

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core import errors as e
from lakebed.core.secrets import Secret
from lakebed.core.settings import OidcProvider, OidcSettings, Settings, TokenMode, TokensSettings
from lakebed.wire.oauth.app import KEYS_PATH, TOKEN_PATHS
from lakebed.wire.oauth.errors import oauth_error_response
from lakebed.wire.oauth.form import parse_form

from .site import ACCESS_TOKEN, EXCHANGE, FORM, ROOT_ID, ROOT_SECRET, TOKENS, Site, opened_site

CLIENT = {"grant_type": "client_credentials", "client_id": ROOT_ID, "client_secret": ROOT_SECRET}


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


# -- client credentials ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(TOKEN_PATHS))
async def test_tokens_are_issued_under_every_base_path(site: Site, path: str) -> None:
    answer = await site.request_token({**CLIENT, "scope": "catalog"}, path=path)
    assert answer.status == 200
    document = answer.document
    token = document.pop("access_token")
    assert document == {
        "token_type": "bearer",
        "expires_in": 3600,
        "issued_token_type": ACCESS_TOKEN,
        "scope": "PRINCIPAL_ROLE:ALL",
    }
    assert (answer.headers["cache-control"], answer.headers["content-type"]) == ("no-store", "application/json")
    assert (await site.call("GET", "/iceberg/v1/config", token)).status == 200


async def test_client_credentials_may_be_in_the_header(site: Site) -> None:
    form = {"grant_type": "client_credentials"}
    assert (await site.request_token(form, headers=basic(ROOT_ID, ROOT_SECRET))).status == 200
    assert (await site.request_token({**form, "client_id": ROOT_ID}, headers=basic(ROOT_ID, ROOT_SECRET))).status == 200
    assert (await site.request_token(form, headers={"authorization": "bearer xyz"})).refusal == (401, "invalid_client")


async def test_secret_may_contain_any_printable_character(site: Site) -> None:
    client = await site.client("bob")
    user = await site.principals.user("bob")
    secret = "a+b%20c:d&e=f/g?h#i\\j\"k'l"
    await site.tokens.clients.reset(user, secret=Secret(secret))
    await site.token(client.client_id, secret)
    answer = await site.request_token({"grant_type": "client_credentials"}, headers=basic(client.client_id, secret))
    assert answer.status == 200


@pytest.mark.parametrize(
    ("fields", "headers", "expected"),
    [
        ({**CLIENT, "client_secret": "wrong"}, {}, (401, "invalid_client")),
        ({**CLIENT, "client_id": "unknown"}, {}, (401, "invalid_client")),
        ({**CLIENT, "client_id": "\0"}, {}, (400, "invalid_request")),
        ({**CLIENT, "client_secret": ""}, {}, (401, "invalid_client")),
        ({"grant_type": "client_credentials"}, {}, (401, "invalid_client")),
        ({"grant_type": "client_credentials", "client_secret": "x"}, {}, (400, "invalid_request")),
        ({"grant_type": "client_credentials"}, {"authorization": "Basic !"}, (401, "invalid_client")),
        ({"grant_type": "client_credentials"}, {"authorization": "Basic "}, (401, "invalid_client")),
        ({"grant_type": "client_credentials"}, basic("", "x"), (401, "invalid_client")),
        (CLIENT, basic(ROOT_ID, ROOT_SECRET), (400, "invalid_request")),
        (
            {"grant_type": "client_credentials", "client_id": "other"},
            basic(ROOT_ID, ROOT_SECRET),
            (400, "invalid_request"),
        ),
        ({}, {}, (400, "invalid_request")),
        ({**CLIENT, **{f"x{number}": "" for number in range(100)}}, {}, (400, "invalid_request")),
        ({"grant_type": "password"}, {}, (400, "unsupported_grant_type")),
        ({"grant_type": "refresh_token"}, {}, (400, "unsupported_grant_type")),
        ({**CLIENT, "scope": "openid"}, {}, (400, "invalid_scope")),
        (CLIENT, {"content-type": "application/json"}, (400, "invalid_request")),
        (CLIENT, {"content-type": ""}, (400, "invalid_request")),
    ],
)
async def test_errors_have_oauth_codes(
    site: Site, fields: dict[str, str], headers: dict[str, str], expected: tuple[int, str]
) -> None:
    answer = await site.request_token(fields, headers=headers)
    assert answer.refusal == expected
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == (expected[0] == 401)
    assert ROOT_SECRET not in answer.body.decode()


async def test_malformed_token_requests_are_refused(site: Site) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert (await site.send(method, TOKENS)).refusal == (405, "invalid_request")
    form = {"content-type": FORM}
    assert (await site.send("POST", TOKENS, b"a=1", form, query="grant_type=x")).refusal == (400, "invalid_request")
    for body in (b"grant_type=a&grant_type=b", b"\xff", b"a=%ff", b"a=%00", b"x" * 70_000):
        assert (await site.send("POST", TOKENS, body, form)).refusal == (400, "invalid_request")


async def test_wrong_secrets_are_throttled(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = await site.client("bob")
    guess = {"grant_type": "client_credentials", "client_id": client.client_id, "client_secret": "a-guess-at-it"}
    answers = [await site.request_token(guess, peer="198.51.100.1") for _ in range(11)]
    assert [answer.status for answer in answers] == [401] * 10 + [429]
    assert answers[-1].headers["retry-after"] == "6"
    right = {**guess, "client_secret": client.secret.reveal()}
    assert (await site.request_token(right, peer="198.51.100.1")).status == 429
    site.clock.advance(6)
    assert (await site.request_token(right, peer="198.51.100.1")).status == 200
    assert "a-guess-at-it" not in caplog.text
    assert client.secret.reveal() not in caplog.text


# -- exchange --------------------------------------------------------------------------------------------------------


def exchange(token: str, **more: str) -> dict[str, str]:
    return {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN, **more}


async def test_token_exchange_of_iceberg_clients(site: Site) -> None:
    token = await site.token(scope="catalog")
    fresh = await site.request_token(exchange(token, scope="catalog"), headers={"authorization": f"Bearer {token}"})
    assert fresh.status == 200
    assert (await site.call("GET", "/iceberg/v1/config", fresh.document["access_token"])).status == 200
    site.clock.advance(4000)
    expired = fresh.document["access_token"]
    assert (await site.request_token(exchange(expired))).refusal == (400, "invalid_grant")
    renewed = await site.request_token(exchange(expired, scope="catalog"), headers=basic(ROOT_ID, ROOT_SECRET))
    assert renewed.status == 200
    wrong = await site.request_token(exchange(expired), headers=basic(ROOT_ID, "wrong"))
    assert wrong.refusal == (401, "invalid_client")


async def test_invalid_exchanges_are_refused(site: Site) -> None:
    token = await site.token(scope="PRINCIPAL_ROLE:a")
    for fields, code in (
        ({"grant_type": EXCHANGE}, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": token}, "invalid_request"),
        ({**exchange(token), "subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"),
        (exchange(token, requested_token_type="urn:ietf:params:oauth:token-type:refresh_token"), "invalid_request"),
        (exchange(token, actor_token=token, actor_token_type=ACCESS_TOKEN), "invalid_request"),
        (exchange("a.b.c"), "invalid_grant"),
        (exchange(token[:-4]), "invalid_grant"),
        (exchange(token, scope="PRINCIPAL_ROLE:ALL"), "invalid_scope"),
    ):
        answer = await site.request_token(fields)
        assert answer.refusal == (400, code), fields
        assert token not in answer.body.decode()


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_public_keys_need_no_authentication(site: Site) -> None:
    answer = await site.send("GET", KEYS_PATH)
    assert answer.status == 200
    (key,) = answer.document["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert (await site.send("POST", KEYS_PATH)).status == 405


# -- other modes -----------------------------------------------------------------------------------------------------


async def test_external_token_mode_issues_no_tokens(tmp_path: Path) -> None:
    provider = OidcProvider(issuer="https://id.example", audiences=("lakebed",))
    external = Settings(
        tokens=TokensSettings(mode=TokenMode.EXTERNAL), oidc=OidcSettings(providers={"corporate": provider})
    )
    async with opened_site(tmp_path, external) as site:
        assert (await site.request_token(CLIENT)).refusal == (501, "unsupported_grant_type")
        assert (await site.send("GET", KEYS_PATH)).document == {"keys": []}
    mixed = Settings(tokens=TokensSettings(mode=TokenMode.MIXED), oidc=OidcSettings(providers={"corporate": provider}))
    (tmp_path / "mixed").mkdir()
    async with opened_site(tmp_path / "mixed", mixed) as site:
        token = await site.token()
        assert (await site.call("GET", "/iceberg/v1/config", token)).status == 200


# -- texts -----------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20), max_size=5))
def test_form_round_trips(fields: dict[str, str]) -> None:
    clean = {
        name: value
        for name, value in fields.items()
        if "\0" not in name + value and (name + value).isprintable() and name
    }
    assert parse_form(urlencode(clean).encode()) == clean


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.binary(max_size=200))
async def test_random_bodies_are_client_errors(site: Site, body: bytes) -> None:
    answer = await site.send("POST", TOKENS, body, {"content-type": FORM})
    assert 400 <= answer.status < 500


@given(st.text(max_size=50))
def test_error_descriptions_have_only_permitted_characters(text: str) -> None:
    description = json.loads(oauth_error_response(e.InvalidInput(text)).body)["error_description"]
    assert all(" " <= character <= "~" and character not in '"\\' for character in description)


def test_server_errors_are_not_described() -> None:
    for error, status in ((e.Corrupted("row 7 of table x"), 500), (e.Unavailable("host db-3"), 503)):
        answer = oauth_error_response(error)
        assert (answer.status, b"row" in answer.body or b"db-3" in answer.body) == (status, False)

"""Bearer tokens on the APIs that accept them besides signatures."""

from __future__ import annotations

import pytest

from .site import Site

TABLE = {
    "name": "t",
    "schema": {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
    },
}


@pytest.mark.parametrize(
    "path",
    ["/iceberg/v1/config", "/_iceberg/v1/config", "/api/catalog/v1/config", "/lakebed/v1/tasks"],
)
async def test_catalog_and_admin_apis_accept_bearer_tokens(site: Site, path: str) -> None:
    token = await site.token()
    assert (await site.call("GET", path, token)).status == 200
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": "bearer a.b.c"}):
        answer = await site.send("GET", path, headers=headers)
        assert answer.status in (400, 401), headers
        if answer.status == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert answer.document["error"]["type"] == "NotAuthorizedException"


async def test_policy_api_accepts_bearer_tokens(site: Site) -> None:
    token = await site.token()
    for base in ("", "/iceberg", "/_iceberg", "/api/catalog"):
        assert (await site.call("GET", f"{base}/polaris/v1/lake/applicable-policies", token)).status == 200
        assert (await site.send("GET", f"{base}/polaris/v1/lake/applicable-policies")).status == 401


async def test_scheme_is_case_insensitive(site: Site) -> None:
    token = await site.token()
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await site.send("GET", "/iceberg/v1/config", headers={"authorization": f"{scheme} {token}"})
        assert answer.status == 200


async def test_unauthenticated_head_has_a_challenge(site: Site) -> None:
    answer = await site.send("HEAD", "/iceberg/v1/lake/namespaces/ns")
    assert (answer.status, answer.body) == (401, b"")
    assert "www-authenticate" in answer.headers


async def test_token_has_the_permissions_of_the_user(site: Site) -> None:
    reader = await site.client("reader", "s3tables:Get*", "s3tables:List*")
    unprivileged = await site.client("unprivileged")
    root = await site.token()
    assert (await site.call("POST", "/iceberg/v1/lake/namespaces", root, {"namespace": ["ns"]})).status == 200
    reading = await site.token(reader.client_id, reader.secret.reveal())
    assert (await site.call("GET", "/iceberg/v1/lake/namespaces/ns", reading)).status == 200
    assert (await site.call("POST", "/iceberg/v1/lake/namespaces", reading, {"namespace": ["x"]})).status == 403
    other = await site.token(unprivileged.client_id, unprivileged.secret.reveal())
    assert (await site.call("GET", "/iceberg/v1/lake/namespaces/ns", other)).status == 403


async def test_revoked_permissions_and_disabled_users_take_effect_at_once(site: Site) -> None:
    client = await site.client("bob", "s3tables:*")
    token = await site.token(client.client_id, client.secret.reveal())
    path = "/iceberg/v1/lake/namespaces"
    assert (await site.call("GET", path, token)).status == 200
    await site.principals.delete_policy("bob", "own")
    assert (await site.call("GET", path, token)).status == 403
    await site.principals.attach_canned("bob", "readwrite")
    assert (await site.call("GET", path, token)).status == 200
    await site.principals.set_user_enabled("bob", enabled=False)
    refused = await site.call("GET", path, token)
    assert (refused.status, refused.document["error"]["type"]) == (401, "NotAuthorizedException")


async def test_expired_token_is_a_401(site: Site) -> None:
    token = await site.token()
    site.clock.advance(3600)
    answer = await site.call("GET", "/iceberg/v1/config", token)
    assert answer.status == 401
    assert "expired" in answer.document["error"]["message"]


async def test_errors_do_not_contain_the_token(site: Site) -> None:
    token = (await site.token())[:-3] + "abc"
    assert token not in (await site.call("GET", "/iceberg/v1/config", token)).body.decode()


async def test_credentials_are_vended_for_bearer_tokens(site: Site) -> None:
    client = await site.client("bob", "s3tables:*")
    token = await site.token(client.client_id, client.secret.reveal())
    await site.call("POST", "/iceberg/v1/lake/namespaces", token, {"namespace": ["ns"]})
    answer = await site.call(
        "POST",
        "/iceberg/v1/lake/namespaces/ns/tables",
        token,
        TABLE,
        x_iceberg_access_delegation="vended-credentials",
    )
    assert answer.status == 200
    assert answer.document["config"]["s3.session-token"]

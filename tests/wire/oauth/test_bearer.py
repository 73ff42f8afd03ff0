"""Bearer tokens on the edges that take them beside signatures."""

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
async def test_every_edge_of_the_catalog_takes_them_and_says_so(site: Site, path: str) -> None:
    token = await site.token()
    assert (await site.call("GET", path, token)).status == 200
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": "bearer a.b.c"}):
        answer = await site.send("GET", path, headers=headers)
        assert answer.status in (400, 401), headers
        if answer.status == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert answer.document["error"]["type"] == "NotAuthorizedException"


async def test_policies_take_them_too(site: Site) -> None:
    token = await site.token()
    for base in ("", "/iceberg", "/_iceberg", "/api/catalog"):
        assert (await site.call("GET", f"{base}/polaris/v1/lake/applicable-policies", token)).status == 200
        assert (await site.send("GET", f"{base}/polaris/v1/lake/applicable-policies")).status == 401


async def test_the_scheme_is_spelled_in_whatever_case(site: Site) -> None:
    token = await site.token()
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await site.send("GET", "/iceberg/v1/config", headers={"authorization": f"{scheme} {token}"})
        assert answer.status == 200


async def test_the_answer_to_a_head_says_it_too(site: Site) -> None:
    answer = await site.send("HEAD", "/iceberg/v1/lake/namespaces/ns")
    assert (answer.status, answer.body) == (401, b"")
    assert "www-authenticate" in answer.headers


async def test_rights_are_those_of_the_user(site: Site) -> None:
    reader = await site.client("reader", "s3tables:Get*", "s3tables:List*")
    nobody = await site.client("nobody")
    root = await site.token()
    assert (await site.call("POST", "/iceberg/v1/lake/namespaces", root, {"namespace": ["ns"]})).status == 200
    reading = await site.token(reader.client_id, reader.secret.reveal())
    assert (await site.call("GET", "/iceberg/v1/lake/namespaces/ns", reading)).status == 200
    assert (await site.call("POST", "/iceberg/v1/lake/namespaces", reading, {"namespace": ["x"]})).status == 403
    other = await site.token(nobody.client_id, nobody.secret.reveal())
    assert (await site.call("GET", "/iceberg/v1/lake/namespaces/ns", other)).status == 403


async def test_a_user_stripped_of_rights_or_disabled_is_refused_with_the_next_request(site: Site) -> None:
    made = await site.client("bob", "s3tables:*")
    token = await site.token(made.client_id, made.secret.reveal())
    path = "/iceberg/v1/lake/namespaces"
    assert (await site.call("GET", path, token)).status == 200
    await site.principals.delete_policy("bob", "own")
    assert (await site.call("GET", path, token)).status == 403
    await site.principals.attach_canned("bob", "readwrite")
    assert (await site.call("GET", path, token)).status == 200
    await site.principals.set_user_enabled("bob", enabled=False)
    refused = await site.call("GET", path, token)
    assert (refused.status, refused.document["error"]["type"]) == (401, "NotAuthorizedException")


async def test_an_expired_token_is_a_401(site: Site) -> None:
    token = await site.token()
    site.clock.advance(3600)
    answer = await site.call("GET", "/iceberg/v1/config", token)
    assert answer.status == 401
    assert "expired" in answer.document["error"]["message"]


async def test_a_refusal_does_not_repeat_the_token(site: Site) -> None:
    token = (await site.token())[:-3] + "abc"
    assert token not in (await site.call("GET", "/iceberg/v1/config", token)).body.decode()


async def test_keys_to_files_are_handed_out_to_who_has_a_token(site: Site) -> None:
    made = await site.client("bob", "s3tables:*")
    token = await site.token(made.client_id, made.secret.reveal())
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

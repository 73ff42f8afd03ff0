"""Running servers that authorize every operation with a real Open Policy Agent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from lakebed.core.clock import SystemClock
from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import DecisionsSettings
from lakebed.server.decisions import wire_authorizer
from tests.clients.boto import Keys, connected, root_keys
from tests.clients.plain_http import Answer, fetch
from tests.clients.users import User, make_user
from tests.fixtures.opa import TOKEN, PolicyAgent, running_agent
from tests.fixtures.server import RunningServer, running_server

pytestmark = pytest.mark.integration

POLICY: Final = """
package lakebed

default allow := false

allow if input.actor.type == "root"

allow if {
    input.actor.type == "user"
    not is_private
}

is_private if {
    some parent in input.resource.targets[0].parents
    parent.name == "private"
}

is_private if input.resource.targets[0].name == "private"

visible contains index if {
    some index, target in input.resource.targets
    not startswith(target.name, "hidden")
}
"""
READERS: Final = """
package lakebed

allow if {
    input.actor.type == "user"
    "readers" in input.actor.roles
    input.action in {"s3tables:GetTableBucket", "s3tables:ListNamespaces"}
}
"""
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}


class Site:
    """A server with its policy agent, and shortcuts to call it."""

    def __init__(self, server: RunningServer, agent: PolicyAgent) -> None:
        self.server = server
        self.agent = agent

    def token(self, keys: Keys) -> str:
        fields = {"grant_type": "client_credentials", "client_id": keys.access_key, "client_secret": keys.secret_key}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        url = f"{self.server.endpoint}/iceberg/v1/oauth/tokens"
        answer = fetch("POST", url, headers=form, body=urlencode(fields).encode())
        assert answer.status == 200, answer.body
        token: str = json.loads(answer.body)["access_token"]
        return token

    def call(self, keys: Keys, method: str, path: str, document: object = None) -> Answer:
        headers = {"Authorization": f"Bearer {self.token(keys)}", "Content-Type": "application/json"}
        body = b"" if document is None else json.dumps(document).encode()
        return fetch(method, f"{self.server.endpoint}{path}", headers=headers, body=body)

    def make(self, path: str, document: object, method: str = "POST") -> Any:  # Any: JSON
        """Create a resource as root."""
        answer = self.call(root_keys(self.server), method, path, document)
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    def namespace(self, *names: str) -> str:
        """A new namespace of a new catalog, with tables; its path."""
        lake = f"lake-{uuid.uuid4().hex[:12]}"
        with connected(self.server) as s3:
            s3.create_bucket(Bucket=lake)
        self.make(f"/iceberg/v1/buckets/{lake}", {}, "PUT")
        self.make(f"/iceberg/v1/{lake}/namespaces", {"namespace": ["ns"]})
        for name in names:
            self.make(f"/iceberg/v1/{lake}/namespaces/ns/tables", {"name": name, "schema": SCHEMA})
        return f"/iceberg/v1/{lake}/namespaces/ns"


def settings_of(agent: PolicyAgent, **more: str) -> dict[str, str]:
    return {
        "LAKEBED_DECISIONS__URL": f"{agent.url}/v1/data/lakebed/allow",
        "LAKEBED_DECISIONS__BATCH_URL": f"{agent.url}/v1/data/lakebed/visible",
        "LAKEBED_DECISIONS__TOKEN": TOKEN,
        "LAKEBED_DECISIONS__CACHE_TTL": "0",
        **more,
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("decisions")
    with ExitStack() as stack:
        agent = stack.enter_context(running_agent(folder / "agent"))
        agent.put_policy("lakebed", POLICY)
        server = stack.enter_context(running_server(folder / "data", workers=2, **settings_of(agent)))
        yield Site(server, agent)


@pytest.fixture
def ann(site: Site) -> User:
    """A user whose policies allow everything with objects and tables."""
    return make_user(site.server, "readwrite")


def refused(answer: Answer) -> str:
    """The error message of a refusal by the catalog."""
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"]) == (403, "ForbiddenException"), answer.body
    text: str = error["message"]
    return text


def test_refusal_of_the_agent_overrides_policies_that_allow_everything(site: Site, ann: User) -> None:
    place = site.namespace("orders", "private")
    assert site.call(ann.keys, "GET", f"{place}/tables/orders").status == 200
    assert refused(site.call(ann.keys, "GET", f"{place}/tables/private")).startswith("the decision point does not")
    assert site.call(root_keys(site.server), "GET", f"{place}/tables/private").status == 200
    with connected(site.server) as root, connected(site.server, ann.keys) as s3:
        for bucket in ("private", f"b-{uuid.uuid4().hex[:12]}"):
            root.create_bucket(Bucket=bucket)
            root.put_object(Bucket=bucket, Key="k", Body=b"x")
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
        with pytest.raises(s3.exceptions.ClientError) as error:
            s3.get_object(Bucket="private", Key="k")
    assert error.value.response["Error"]["Code"] == "AccessDenied"


def test_permission_of_the_agent_does_not_replace_a_grant(site: Site) -> None:
    place = site.namespace("orders")
    user = make_user(site.server)
    assert "decision point" not in refused(site.call(user.keys, "GET", f"{place}/tables/orders"))


def test_listings_are_filtered_by_the_agent_across_pages(site: Site, ann: User) -> None:
    place = site.namespace("a", "hidden1", "hidden2", "hidden3", "m", "z")
    names: list[str] = []
    token: str | None = ""
    pages = 0
    while token is not None:
        answer = site.call(ann.keys, "GET", f"{place}/tables?{urlencode({'pageSize': 2, 'pageToken': token})}")
        page = json.loads(answer.body)
        names += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
        pages += 1
    assert (names, pages) == (["a", "m", "z"], 2)
    whole = json.loads(site.call(ann.keys, "GET", f"{place}/tables").body)["identifiers"]
    assert [one["name"] for one in whole] == ["a", "m", "z"]


def test_namespace_listings_are_filtered_by_the_agent(site: Site, ann: User) -> None:
    above = site.namespace().removesuffix("/ns")
    for name in ("hidden", "shown"):
        site.make(above, {"namespace": [name]})
    assert json.loads(site.call(ann.keys, "GET", above).body)["namespaces"] == [["ns"], ["shown"]]


def test_changed_policy_applies_to_the_next_request(site: Site, ann: User) -> None:
    place = site.namespace("orders")
    path = f"{place}/tables/orders"
    assert site.call(ann.keys, "GET", path).status == 200
    try:
        site.agent.put_policy("lakebed", POLICY.replace('input.actor.type == "user"', "false"))
        assert site.call(ann.keys, "GET", path).status == 403
    finally:
        site.agent.put_policy("lakebed", POLICY)
    assert site.call(ann.keys, "GET", path).status == 200


def test_unavailable_agent_denies_everything(site: Site, ann: User) -> None:
    place = site.namespace("orders")
    tokens = {keys.access_key: site.token(keys) for keys in (ann.keys, root_keys(site.server))}
    site.agent.stop()
    try:
        for token in tokens.values():
            headers = {"Authorization": f"Bearer {token}"}
            answer = fetch("GET", f"{site.server.endpoint}{place}/tables/orders", headers=headers)
            assert answer.status == 503
            error = json.loads(answer.body)["error"]
            assert (error["type"], error["message"]) == (
                "ServiceUnavailableException",
                "the decision point does not respond",
            )
            assert answer.headers["retry-after"]
        with connected(site.server, ann.keys, retries={"total_max_attempts": 1}) as s3:
            with pytest.raises(s3.exceptions.ClientError) as raised:
                s3.list_buckets()
            assert raised.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert fetch("GET", f"{site.server.endpoint}/health/ready").status == 200
    finally:
        site.agent.start()
        site.agent.put_policy("lakebed", POLICY)
    log = site.server.log_text()
    assert "no response of the decision point; the request was refused" in log
    assert ann.arn in log
    assert TOKEN not in log
    assert site.call(ann.keys, "GET", f"{place}/tables/orders").status == 200


def test_wrong_token_for_the_agent_denies_everything(tmp_path: Path, site: Site) -> None:
    settings = settings_of(site.agent, LAKEBED_DECISIONS__TOKEN="another-token")
    with running_server(tmp_path / "data", workers=1, **settings) as server:
        with connected(server, retries={"total_max_attempts": 1}) as s3:
            with pytest.raises(s3.exceptions.ClientError) as raised:
                s3.list_buckets()
            assert raised.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert "the decision point responded with 401" in server.log_text()


def test_unreadable_ca_bundle_is_refused_by_its_path(tmp_path: Path) -> None:
    settings = DecisionsSettings(url="https://localhost/", ca_bundle=tmp_path / "none.pem")
    with pytest.raises(InvalidSetting, match=r"^decisions\.ca_bundle: cannot be read"):
        wire_authorizer(settings, SystemClock())


def test_replace_mode_decides_by_the_agent_alone(tmp_path: Path) -> None:
    with ExitStack() as stack:
        agent = stack.enter_context(running_agent(tmp_path / "agent"))
        agent.put_policy(
            "lakebed", POLICY.replace('allow if {\n    input.actor.type == "user"', "allow if {\n    false")
        )
        agent.put_policy("readers", READERS)
        settings = settings_of(agent, LAKEBED_DECISIONS__MODE="instead")
        server = stack.enter_context(running_server(tmp_path / "data", workers=1, **settings))
        site = Site(server, agent)
        place = site.namespace("orders")
        above = place.removesuffix("/ns")
        made = site.make("/api/management/v1/principals", {"principal": {"name": "carol"}})["credentials"]
        carol = Keys(made["clientId"], made["clientSecret"])
        assert site.call(carol, "GET", above).status == 403
        site.make("/api/management/v1/principal-roles", {"principalRole": {"name": "readers"}})
        site.make("/api/management/v1/principals/carol/principal-roles", {"principalRole": {"name": "readers"}}, "PUT")
        assert json.loads(site.call(carol, "GET", above).body)["namespaces"] == [["ns"]]
        assert site.call(carol, "GET", f"{place}/tables/orders").status == 403
        # A user policy that allows everything has no effect now.
        ann = make_user(server, "readwrite")
        assert site.call(ann.keys, "GET", above).status == 403

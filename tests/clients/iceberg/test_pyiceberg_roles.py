"""PyIceberg with OAuth2 as users with roles and without policies, created with the management API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError

from tests.clients.boto import root_keys
from tests.clients.iceberg.lake import OWN, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.plain_http import Answer, fetch

pytestmark = pytest.mark.integration

MANAGEMENT: Final = "/api/management/v1"
JSON: Final = {"Content-Type": "application/json"}
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


def bearer(lake: Lake, client_id: str, secret: str, scope: str = "PRINCIPAL_ROLE:ALL") -> dict[str, str]:
    """A header with a new token."""
    fields = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret, "scope": scope}
    url = f"{lake.server.endpoint}{OWN}/v1/oauth/tokens"
    answer = fetch("POST", url, headers=FORM, body=urlencode(fields).encode())
    assert answer.status == 200, answer.body
    return {"Authorization": f"Bearer {json.loads(answer.body)['access_token']}"}


@dataclass(frozen=True)
class Member:
    """A user with a separate principal role, which has a catalog role of the same name."""

    lake: Lake
    name: str
    client_id: str
    secret: str = field(repr=False)

    @contextmanager
    def catalog(self) -> Iterator[RestCatalog]:
        """PyIceberg with the OAuth2 credential."""
        settings = {
            "uri": f"{self.lake.server.endpoint}{OWN}",
            "warehouse": self.lake.warehouse,
            "credential": f"{self.client_id}:{self.secret}",
            "oauth2-server-uri": f"{self.lake.server.endpoint}{OWN}/v1/oauth/tokens",
        }
        with closing(RestCatalog("lake", **settings)) as catalog:
            yield catalog

    def ask(self, method: str, path: str, document: object = None) -> Answer:
        """One request within the catalog, with an unchanged path."""
        url = f"{self.lake.server.endpoint}{OWN}/v1/{self.lake.warehouse}/{path}"
        body = b"" if document is None else json.dumps(document).encode()
        return fetch(method, url, headers={**JSON, **bearer(self.lake, self.client_id, self.secret)}, body=body)


class ManagementApi:
    """The management API with the token of a principal."""

    def __init__(self, lake: Lake, headers: dict[str, str]) -> None:
        self._lake = lake
        self._headers = headers

    def call(self, method: str, path: str, document: object = None) -> Any:  # Any: JSON
        """Send a request that must succeed."""
        answer = self.send(method, path, document)
        assert answer.status < 300, (path, answer.status, answer.body)
        return json.loads(answer.body) if answer.body else None

    def send(self, method: str, path: str, document: object = None) -> Answer:
        """Send a request."""
        url = f"{self._lake.server.endpoint}{MANAGEMENT}{path}"
        body = b"" if document is None else json.dumps(document).encode()
        return fetch(method, url, headers={**JSON, **self._headers}, body=body)

    def member(self, what: str) -> Member:
        """Create a user without grants."""
        name = f"{what}-{uuid.uuid4().hex[:12]}"
        made = self.call("POST", "/principals", {"principal": {"name": name}})
        self.call("POST", "/principal-roles", {"principalRole": {"name": name}})
        roles = f"/catalogs/{self._lake.warehouse}/catalog-roles"
        self.call("POST", roles, {"catalogRole": {"name": name}})
        self.call(
            "PUT", f"/principal-roles/{name}/catalog-roles/{self._lake.warehouse}", {"catalogRole": {"name": name}}
        )
        self.call("PUT", f"/principals/{name}/principal-roles", {"principalRole": {"name": name}})
        credentials = made["credentials"]
        return Member(self._lake, name, credentials["clientId"], credentials["clientSecret"])

    def grant(self, member: Member, privilege: str, *namespace: str, table: str = "", revoke: bool = False) -> None:
        """Grant or revoke a privilege on a table, a namespace or the catalog."""
        grant: dict[str, object] = {"privilege": privilege, "type": "catalog"}
        if namespace:
            grant |= {"type": "namespace", "namespace": list(namespace)}
        if table:
            grant |= {"type": "table", "tableName": table}
        path = f"/catalogs/{self._lake.warehouse}/catalog-roles/{member.name}/grants"
        self.call("POST" if revoke else "PUT", path, {"grant": grant})


@pytest.fixture(scope="module")
def management(lake: Lake) -> ManagementApi:
    keys = root_keys(lake.server)
    return ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key))


def refuses(*calls: Callable[[], object]) -> None:
    """Check that each call is forbidden."""
    for call in calls:
        with pytest.raises(ForbiddenError):
            call()


def test_admin_writer_and_reader_are_limited_to_their_grants(management: ManagementApi) -> None:
    admin, writer, reader = (management.member(what) for what in ("admin", "writer", "reader"))
    management.grant(admin, "CATALOG_MANAGE_METADATA")
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with admin.catalog() as catalog:
        catalog.create_namespace(name)
        catalog.create_namespace(f"{name}0")
    management.grant(writer, "TABLE_WRITE_DATA", name)
    management.grant(writer, "TABLE_CREATE", name)
    management.grant(reader, "TABLE_READ_DATA", name)

    with writer.catalog() as catalog:
        catalog.create_table((name, "t"), SCHEMA).append(people(1, 2, 3))
        table = catalog.load_table((name, "t"))
        table.delete("id = 2")
        with table.transaction() as transaction:
            transaction.set_properties(owner="writer")
        with catalog.create_table_transaction((name, "staged"), SCHEMA) as staged:
            staged.append(people(9))
        assert ids_of(catalog.load_table((name, "t"))) == [1, 3]
        assert catalog.list_tables(name) == [(name, "staged"), (name, "t")]
        refuses(
            lambda: catalog.drop_table((name, "t")),
            lambda: catalog.rename_table((name, "t"), (name, "u")),
            lambda: catalog.create_namespace((name, "in")),
            lambda: catalog.create_table((f"{name}0", "t"), SCHEMA),
            lambda: catalog.drop_namespace(name),
            lambda: catalog.list_namespaces(),
            lambda: catalog.load_namespace_properties(name),
        )

    with reader.catalog() as catalog:
        table = catalog.load_table((name, "t"))
        assert ids_of(table) == [1, 3]
        assert catalog.table_exists((name, "t"))
        assert catalog.list_tables(name) == [(name, "staged"), (name, "t")]
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            table.append(people(9))
        refuses(
            lambda: table.transaction().set_properties(mine="yes").commit_transaction(),
            lambda: catalog.create_table((name, "other"), SCHEMA),
            lambda: catalog.drop_table((name, "t")),
            lambda: catalog.load_table((f"{name}0", "t")),
            lambda: catalog.list_tables(f"{name}0"),
        )
        with pytest.raises(NoSuchTableError):
            catalog.load_table((name, "ghost"))

    with admin.catalog() as catalog:
        # Metadata and no data: no credentials are vended.
        with pytest.raises(ForbiddenError):
            catalog.load_table((name, "t"))
        assert catalog.list_tables(name) == [(name, "staged"), (name, "t")]
        # PyIceberg would also load the table with credentials.
        document = {
            "source": {"namespace": [name], "name": "t"},
            "destination": {"namespace": [f"{name}0"], "name": "t"},
        }
        assert admin.ask("POST", "tables/rename", document).status == 204
        with pytest.raises(ForbiddenError):
            catalog.purge_table((name, "staged"))
        catalog.drop_table((name, "staged"))
    with reader.catalog() as catalog, pytest.raises(ForbiddenError):
        # The table was renamed to a namespace without grants of the reader.
        catalog.load_table((f"{name}0", "t"))


def test_revoked_grant_takes_effect_with_the_next_request(
    management: ManagementApi, catalog: RestCatalog, namespace: str
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA)
    member = management.member("reader")
    management.grant(member, "TABLE_READ_DATA", namespace)
    with member.catalog() as reading:
        assert ids_of(reading.load_table((namespace, "t"))) == []
        management.grant(member, "TABLE_READ_DATA", namespace, revoke=True)
        with pytest.raises(ForbiddenError):
            reading.load_table((namespace, "t"))
        management.grant(member, "TABLE_READ_DATA", namespace, table="t")
        assert ids_of(reading.load_table((namespace, "t"))) == []
        catalog.drop_table((namespace, "t"))
        catalog.create_table((namespace, "t"), SCHEMA)
        with pytest.raises(ForbiddenError):
            reading.load_table((namespace, "t"))


def test_listings_show_only_granted_resources(management: ManagementApi, catalog: RestCatalog, namespace: str) -> None:
    for table in ("a", "b", "c"):
        catalog.create_table((namespace, table), SCHEMA)
    member = management.member("partial")
    with member.catalog() as partial:
        with pytest.raises(ForbiddenError):
            partial.list_tables(namespace)
        management.grant(member, "TABLE_LIST", namespace, table="a")
        management.grant(member, "TABLE_READ_DATA", namespace, table="c")
        assert partial.list_tables(namespace) == [(namespace, "a"), (namespace, "c")]
        with pytest.raises(ForbiddenError):
            partial.list_namespaces()
        management.grant(member, "NAMESPACE_LIST", namespace)
        assert partial.list_namespaces() == [(namespace,)]


def test_catalog_requires_one_of_its_roles(management: ManagementApi, lake: Lake) -> None:
    made = management.call("POST", "/principals", {"principal": {"name": f"unprivileged-{uuid.uuid4().hex[:12]}"}})
    credentials = made["credentials"]
    unprivileged = Member(lake, made["principal"]["name"], credentials["clientId"], credentials["clientSecret"])
    with pytest.raises(ForbiddenError), unprivileged.catalog():
        pass


def test_root_token_scoped_to_a_role_has_its_privileges_only(
    management: ManagementApi, lake: Lake, catalog: RestCatalog, namespace: str
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA)
    keys = root_keys(lake.server)
    root = Member(lake, "root", keys.access_key, keys.secret_key)
    narrow = bearer(lake, root.client_id, root.secret, "PRINCIPAL_ROLE:service_admin")
    url = f"{lake.server.endpoint}{OWN}/v1/{lake.warehouse}/namespaces/{namespace}/tables/t"
    assert fetch("GET", url, headers=narrow).status == 200
    # `service_admin` has `catalog_admin`, which has no privileges on data.
    assert fetch("GET", f"{url}/credentials", headers=narrow).status == 403
    assert fetch("GET", f"{url}/credentials", headers=bearer(lake, root.client_id, root.secret)).status == 200
    assert ManagementApi(lake, narrow).send("GET", "/principals").status == 200
    ghost = bearer(lake, root.client_id, root.secret, "PRINCIPAL_ROLE:ghost")
    assert fetch("GET", url, headers=ghost).status == 403


# -- misleading names ------------------------------------------------------------------------------------------------


@pytest.fixture
def neighbour_member(management: ManagementApi, lake: Lake, catalog: RestCatalog, namespace: str) -> Member:
    """A member with every privilege in a namespace `…1`, next to `…10` and inside a namespace with a table `t`."""
    for name in (f"{namespace}1", f"{namespace}10"):
        catalog.create_namespace(name)
        catalog.create_table((name, "t"), SCHEMA)
    catalog.create_namespace((namespace, "in"))
    catalog.create_table((namespace, "in", "t"), SCHEMA)
    catalog.create_table((namespace, "t"), SCHEMA)
    member = management.member("tricky")
    management.grant(member, "CATALOG_MANAGE_CONTENT", f"{namespace}1")
    return member


def test_grants_do_not_apply_to_names_with_the_same_prefix_or_escapes(neighbour_member: Member, namespace: str) -> None:
    mine = f"{namespace}1"
    assert neighbour_member.ask("GET", f"namespaces/{mine}/tables/t").status == 200
    assert neighbour_member.ask("GET", f"namespaces/{quote(mine, safe='').replace('_', '%5F')}/tables/t").status == 200
    for path in (
        f"namespaces/{namespace}10/tables/t",
        f"namespaces/{namespace}/tables/t",
        f"namespaces/{namespace}%1Fin/tables/t",
        f"namespaces/{mine}%1F..%1F{namespace}/tables/t",
        f"namespaces/{mine}/../{namespace}/tables/t",
        f"namespaces/{mine}/tables/../../{namespace}/tables/t",
        f"namespaces/{mine}/tables/..%2F..%2F{namespace}%2Ftables%2Ft",
        f"namespaces/{mine}%2F..%2F{namespace}/tables/t",
        f"namespaces/{mine}%2F{namespace}/tables/t",
        f"namespaces/{mine}%252F..%252F{namespace}/tables/t",
        f"namespaces/{mine}%1F{namespace}/tables/%2E%2E",
        f"namespaces/{namespace}*/tables/t",
        f"namespaces/{mine}0/tables/t",
        f"namespaces/{mine}%00/tables/t",
        f"namespaces/%20{mine}/tables/t",
        f"namespaces//{namespace}/tables/t",
        "namespaces/*/tables/t",
    ):
        answer = neighbour_member.ask("GET", path)
        assert answer.status in (400, 403, 404), (path, answer.status)
        assert b"metadata-location" not in answer.body


def test_names_that_are_patterns_or_paths_are_refused(neighbour_member: Member, namespace: str) -> None:
    mine = f"{namespace}1"
    document = {"schema": {"type": "struct", "fields": []}}
    for name in ("*", "t*", "?", "..", ".", "a/b", "../t", "a\\b", "a\x1fb", "a\x00b", " t"):
        answer = neighbour_member.ask("POST", f"namespaces/{mine}/tables", {"name": name, **document})
        assert answer.status == 400, (name, answer.status)
        inner = neighbour_member.ask("POST", "namespaces", {"namespace": [mine, name]})
        assert inner.status == 400, (name, inner.status)
    for levels in ([f"{mine}\x1fin"], [f"{namespace}\x1fx"], [mine + "0", "x"], [namespace, "x"], [f"{mine}.x"]):
        assert neighbour_member.ask("POST", "namespaces", {"namespace": levels}).status in (400, 403), levels
    assert neighbour_member.ask("POST", "namespaces", {"namespace": [mine, "a.b"]}).status == 200


def test_rename_requires_privileges_on_source_and_target(neighbour_member: Member, namespace: str) -> None:
    mine = f"{namespace}1"
    for source, target in (
        ([mine], [f"{mine}0"]),
        ([f"{mine}0"], [mine]),
        ([namespace, "in"], [mine]),
    ):
        document = {"source": {"namespace": source, "name": "t"}, "destination": {"namespace": target, "name": "moved"}}
        assert neighbour_member.ask("POST", "tables/rename", document).status == 403
    document = {"source": {"namespace": [mine], "name": "t"}, "destination": {"namespace": [mine], "name": "moved"}}
    assert neighbour_member.ask("POST", "tables/rename", document).status == 204

"""Apache Polaris' getting-started guide with its command line; management of principals, roles and privileges."""

from __future__ import annotations

import uuid

import pytest
from pyiceberg.exceptions import ForbiddenError

from tests.clients.boto import Keys
from tests.clients.iceberg.rows import SCHEMA, ids_of, people

from .cli import NOT_IN, NOT_THERE, Polaris, Refused, iceberg

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_getting_started_guide_succeeds(polaris: Polaris, base: str) -> None:
    at, role = ("--catalog", "quickstart_catalog"), ("--catalog-role", "quickstart_catalog_role")
    polaris.run("catalogs", "create", "--storage-type", "s3", "--default-base-location", base, at[1])
    user = polaris.as_user(polaris.principal("create", "quickstart_user"))
    polaris.run("principal-roles", "create", "quickstart_user_role")
    polaris.run("catalog-roles", "create", *at, role[1])
    polaris.run("principal-roles", "grant", "--principal", "quickstart_user", "quickstart_user_role")
    polaris.run("catalog-roles", "grant", *at, "--principal-role", "quickstart_user_role", role[1])
    polaris.run("privileges", "catalog", "grant", *at, *role, "CATALOG_MANAGE_CONTENT")

    with iceberg(user, at[1]) as opened:
        opened.create_namespace("quickstart_namespace")
        opened.create_namespace("quickstart_namespace.schema")
        table = opened.create_table("quickstart_namespace.schema.quickstart_table", SCHEMA)
        table.append(people(1))
        assert ids_of(table) == [1]
        assert table.location().startswith(f"{base}/")
        assert user.documents("namespaces", "list", *at) == [{"namespace": "quickstart_namespace"}]
        with pytest.raises(Refused, match="ForbiddenException"):
            user.run("principals", "list")

        polaris.run("privileges", "catalog", "revoke", *at, *role, "CATALOG_MANAGE_CONTENT")
        with pytest.raises(ForbiddenError):
            opened.load_table("quickstart_namespace.schema.quickstart_table")
        with pytest.raises(Refused, match="ForbiddenException"):
            user.run("namespaces", "list", *at)

    # The cleanup of the guide.
    polaris.run("tables", "delete", *at, "--namespace", "quickstart_namespace.schema", "quickstart_table")
    polaris.run("namespaces", "delete", *at, "quickstart_namespace.schema")
    polaris.run("namespaces", "delete", *at, "quickstart_namespace")
    polaris.run("catalog-roles", "delete", *at, role[1])
    polaris.run("principal-roles", "delete", "quickstart_user_role")
    polaris.run("principals", "delete", "quickstart_user")
    polaris.run("catalogs", "delete", at[1])
    with pytest.raises(Refused, match=NOT_IN):
        user.run("namespaces", "list", *at)
    assert at[1] not in polaris.names("catalogs", "list")


def test_catalogs_are_described_and_updated(polaris: Polaris, catalog: str, base: str) -> None:
    shown = polaris.document("catalogs", "get", catalog)
    assert (shown["type"], shown["properties"]) == ("INTERNAL", {"default-base-location": f"{base}/"})
    assert catalog in polaris.names("catalogs", "list")
    imports = base.replace("quickstart", "imports")
    polaris.run("catalogs", "update", "--set-property", "a=1", "--set-property", "b=2", catalog)
    polaris.run("catalogs", "update", "--remove-property", "a", "--allowed-location", imports, catalog)
    changed = polaris.document("catalogs", "get", catalog)
    assert changed["properties"] == {"default-base-location": f"{base}/", "b": "2"}
    assert changed["storageConfigInfo"]["allowedLocations"] == [f"{base}/", f"{imports}/"]
    assert changed["entityVersion"] == 3
    with pytest.raises(Refused, match="AlreadyExistsException"):
        polaris.run("catalogs", "create", "--storage-type", "s3", "--default-base-location", f"{base}2", catalog)
    with pytest.raises(Refused, match=NOT_THERE):
        polaris.run("catalogs", "get", "ghost")
    with pytest.raises(Refused, match=r"UnsupportedOperationException.*not supported"):
        polaris.run("catalogs", "create", "--storage-type", "file", "--default-base-location", "file:///tmp/x", "x")


@pytest.mark.heavy
def test_principals_and_their_credentials_are_managed(polaris: Polaris) -> None:
    name = f"user_{uuid.uuid4().hex[:8]}"
    first = polaris.principal("create", "--property", "team=sales", name)
    assert polaris.document("principals", "get", name)["properties"] == {"team": "sales"}
    polaris.run("principals", "update", "--set-property", "team=hr", name)
    assert polaris.document("principals", "get", name)["properties"] == {"team": "hr"}
    assert {"root", name} <= set(polaris.names("principals", "list"))
    with pytest.raises(Refused, match="AlreadyExistsException"):
        polaris.run("principals", "create", name)

    # A secret is valid until the second rotation after it, or until a reset.
    polaris.as_user(first).principal("rotate-credentials", name)
    third = polaris.as_user(first).principal("rotate-credentials", name)
    assert third.access_key == first.access_key
    with pytest.raises(Refused, match=NOT_IN):
        polaris.as_user(first).run("principals", "rotate-credentials", name)
    polaris.principal("reset", name)
    with pytest.raises(Refused, match=NOT_IN):
        polaris.as_user(third).run("principals", "rotate-credentials", name)
    chosen = polaris.principal("reset", "--new-client-id", f"{name}-id", "--new-client-secret", "s" * 32, name)
    assert chosen == Keys(f"{name}-id", "s" * 32)
    assert polaris.as_user(chosen).principal("rotate-credentials", name).access_key == f"{name}-id"
    polaris.run("principals", "delete", name)
    with pytest.raises(Refused, match=NOT_THERE):
        polaris.run("principals", "get", name)


@pytest.mark.heavy
def test_roles_and_privileges_are_managed(polaris: Polaris, catalog: str) -> None:
    user, at = f"user_{uuid.uuid4().hex[:8]}", ("--catalog", catalog)
    role = (*at, "--catalog-role", "reader")
    polaris.principal("create", user)
    polaris.run("principal-roles", "create", "--property", "a=b", f"{user}_role")
    polaris.run("catalog-roles", "create", *at, "--property", "a=b", "reader")
    polaris.run("principal-roles", "update", "--set-property", "c=d", f"{user}_role")
    polaris.run("catalog-roles", "update", *at, "--remove-property", "a", "reader")
    assert polaris.document("principal-roles", "get", f"{user}_role")["properties"] == {"a": "b", "c": "d"}
    assert polaris.document("catalog-roles", "get", *at, "reader")["properties"] == {}
    polaris.run("principal-roles", "grant", "--principal", user, f"{user}_role")
    polaris.run("catalog-roles", "grant", *at, "--principal-role", f"{user}_role", "reader")
    assert polaris.names("principal-roles", "list", "--principal", user) == [f"{user}_role"]
    assert polaris.names("catalog-roles", "list", "--principal-role", f"{user}_role", catalog) == ["reader"]
    assert polaris.names("catalog-roles", "list", catalog) == ["catalog_admin", "reader"]

    with iceberg(polaris, catalog) as opened:
        opened.create_namespace("sales")
        opened.create_namespace("sales.eu")
        opened.create_table("sales.eu.orders", SCHEMA)
    inside, on = ("--namespace", "sales.eu"), ("--namespace", "sales.eu", "--table", "orders")
    polaris.run("privileges", "catalog", "grant", *role, "NAMESPACE_LIST")
    polaris.run("privileges", "namespace", "grant", *role, *inside, "TABLE_LIST")
    polaris.run("privileges", "table", "grant", *role, *on, "TABLE_READ_DATA")
    held = polaris.documents("privileges", "list", *role)
    assert sorted((one["type"], one["privilege"]) for one in held) == [
        ("catalog", "NAMESPACE_LIST"),
        ("namespace", "TABLE_LIST"),
        ("table", "TABLE_READ_DATA"),
    ]
    (on_table,) = (one for one in held if one["type"] == "table")
    assert (on_table["namespace"], on_table["tableName"]) == (["sales", "eu"], "orders")
    access = polaris.document("principals", "access", user)
    ((of_catalog,),) = (one["catalog_roles"] for one in access["principal_roles"])
    assert (of_catalog["name"], of_catalog["catalog"], len(of_catalog["privileges"])) == ("reader", catalog, 3)

    polaris.run("privileges", "table", "revoke", *role, *on, "TABLE_READ_DATA")
    polaris.run("privileges", "namespace", "revoke", "--cascade", *role, *inside, "TABLE_LIST")
    assert [one["type"] for one in polaris.documents("privileges", "list", *role)] == ["catalog"]
    with pytest.raises(Refused, match=NOT_THERE):
        polaris.run("privileges", "table", "grant", *role, *inside, "--table", "ghost", "TABLE_READ_DATA")
    polaris.run("catalog-roles", "revoke", *at, "--principal-role", f"{user}_role", "reader")
    polaris.run("principal-roles", "revoke", "--principal", user, f"{user}_role")
    assert polaris.names("principal-roles", "list", "--principal", user) == []
    polaris.run("catalog-roles", "delete", *at, "reader")
    polaris.run("principal-roles", "delete", f"{user}_role")


def test_refused_principals_get_an_error_message(polaris: Polaris, catalog: str) -> None:
    with pytest.raises(Refused, match=NOT_IN):
        polaris.as_user(Keys(polaris.keys.access_key, "not the secret")).run("catalogs", "list")
    unprivileged = polaris.as_user(polaris.principal("create", f"unprivileged_{uuid.uuid4().hex[:8]}"))
    for words in (
        ("catalogs", "get", catalog),
        ("principals", "create", "another"),
        ("catalog-roles", "create", "--catalog", catalog, "mine"),
        ("namespaces", "create", "--catalog", catalog, "mine"),
        ("policies", "list", "--catalog", catalog, "--applicable"),
    ):
        with pytest.raises(Refused, match="ForbiddenException"):
            unprivileged.run(*words)

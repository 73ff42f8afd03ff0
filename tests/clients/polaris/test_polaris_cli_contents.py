"""Contents of catalogs with Apache Polaris' command line: namespaces, tables, views, policies, and setup files."""

from __future__ import annotations

import json
import uuid

import pytest
import yaml  # type: ignore[import-untyped]  # has no types
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, people
from tests.clients.iceberg.test_pyiceberg_roles import bearer
from tests.clients.iceberg.test_pyiceberg_views import version
from tests.clients.plain_http import fetch

from .cli import COMPACTION, NOT_THERE, Polaris, Refused, iceberg

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.heavy
def test_namespaces_and_tables(polaris: Polaris, catalog: str) -> None:
    at = ("--catalog", catalog)
    polaris.run("namespaces", "create", *at, "--property", "owner=ann", "sales")
    polaris.run("namespaces", "create", *at, "sales.eu")
    assert polaris.documents("namespaces", "list", *at) == [{"namespace": "sales"}]
    assert polaris.documents("namespaces", "list", *at, "--parent", "sales") == [{"namespace": "sales.eu"}]
    shown = polaris.document("namespaces", "get", *at, "sales")
    assert (shown["namespace"], shown["properties"]["owner"]) == (["sales"], "ann")
    with iceberg(polaris, catalog) as opened:
        opened.create_table("sales.eu.orders", SCHEMA).append(people(1, 2, 3))
    inside = (*at, "--namespace", "sales.eu")
    assert polaris.documents("tables", "list", *inside) == [{"namespace": ["sales", "eu"], "name": "orders"}]
    loaded = polaris.document("tables", "get", *inside, "orders")
    assert [field["name"] for field in loaded["metadata"]["schemas"][0]["fields"]] == ["id", "name", "day"]
    summary = polaris.run_process("tables", "summarize", *inside, "orders")
    assert summary.stderr == ""
    assert "No policies apply to this table" in summary.stdout
    for words in (("catalogs", "summarize", catalog), ("namespaces", "summarize", *at, "sales.eu")):
        assert "Tables:" in polaris.run(*words)
    assert "sales.eu.orders" in polaris.run("find", *at, "sales.eu.orders")
    with pytest.raises(Refused, match="NamespaceNotEmptyException"):
        polaris.run("namespaces", "delete", *at, "sales.eu")
    with pytest.raises(Refused, match="NoSuchNamespaceException"):
        polaris.run("namespaces", "get", *at, "ghost")
    polaris.run("tables", "delete", *inside, "orders")
    assert polaris.documents("tables", "list", *inside) == []
    polaris.run("namespaces", "delete", *at, "sales.eu")


def test_views_generic_tables_and_pages(polaris: Polaris, catalog: str) -> None:
    inside = ("--catalog", catalog, "--namespace", "sales")
    with iceberg(polaris, catalog) as opened:
        opened.create_namespace("sales")
        for name in ("a", "b", "c"):
            opened.create_table(("sales", name), SCHEMA)
        opened.create_view("sales.recent", SCHEMA, version("sales"))
    found = polaris.documents("--page-size", "2", "tables", "list", *inside)
    assert [one["name"] for one in found] == ["a", "b", "c"]
    assert polaris.names("views", "list", *inside) == ["recent"]
    shown = polaris.document("views", "get", *inside, "recent")
    assert shown["metadata"]["versions"][0]["representations"][0]["sql"] == "SELECT 1 AS id"
    assert polaris.run_process("views", "summarize", *inside, "recent").stderr == ""
    polaris.run("views", "delete", *inside, "recent")
    assert polaris.names("views", "list", *inside) == []

    lake = Lake(polaris.server, catalog)
    document = {"name": "events", "format": "delta", "properties": {"a": "b"}}
    keys = polaris.keys
    headers = {**bearer(lake, keys.access_key, keys.secret_key), "Content-Type": "application/json"}
    url = f"{polaris.server.endpoint}/api/catalog/polaris/v1/{catalog}/namespaces/sales/generic-tables"
    assert fetch("POST", url, headers=headers, body=json.dumps(document).encode()).status == 200
    assert polaris.names("generic-tables", "list", *inside) == ["events"]
    assert polaris.document("generic-tables", "get", *inside, "events")["table"]["format"] == "delta"
    polaris.run("generic-tables", "delete", *inside, "events")
    with pytest.raises(Refused, match=NOT_THERE):
        polaris.run("generic-tables", "get", *inside, "events")


@pytest.mark.heavy
def test_policies_from_creation_to_drop(polaris: Polaris, catalog: str) -> None:
    at = ("--catalog", catalog)
    inside = (*at, "--namespace", "sales.eu")
    with iceberg(polaris, catalog) as opened:
        opened.create_namespace("sales")
        opened.create_namespace("sales.eu")
        opened.create_table("sales.eu.orders", Schema(NestedField(1, "id", LongType())))

    def holds(*target: str) -> list[tuple[str, bool]]:
        found = polaris.documents("policies", "list", *at, "--applicable", *target)
        return sorted((one["name"], one["inherited"]) for one in found)

    kind = ("--policy-type", "system.data-compaction")
    description = ("--policy-description", "small files become large ones")
    polaris.run(
        "policies", "create", *inside, "--policy-file", polaris.file(COMPACTION), *kind, *description, "compact"
    )
    expiry = {"enable": True, "config": {"min_snapshot_to_keep": 1, "max_snapshot_age_days": 2, "max_ref_age_days": 3}}
    of_expiry = ("--policy-type", "system.snapshot-expiry")
    polaris.run("policies", "create", *inside, "--policy-file", polaris.file(expiry), *of_expiry, "expire")
    listed = polaris.document("policies", "list", *inside)["identifiers"]
    assert [(one["namespace"], one["name"]) for one in listed] == [
        (["sales", "eu"], "compact"),
        (["sales", "eu"], "expire"),
    ]
    assert len(polaris.document("policies", "list", *inside, *kind)["identifiers"]) == 1

    made = polaris.document("policies", "get", *inside, "compact")["policy"]
    assert (made["version"], made["inheritable"], made["description"]) == (0, True, description[1])
    assert json.loads(made["content"]) == COMPACTION
    other = {**COMPACTION, "config": {"target_file_size_bytes": 1048576}}
    polaris.run("policies", "update", *inside, "--policy-file", polaris.file(other), "compact")
    assert polaris.document("policies", "get", *inside, "compact")["policy"]["version"] == 1
    with pytest.raises(Refused, match="InvalidPolicyException"):
        polaris.run("policies", "update", *inside, "--policy-file", polaris.file({"enabled": True}), "compact")
    with pytest.raises(Refused, match="AlreadyExistsException"):
        polaris.run("policies", "create", *inside, "--policy-file", polaris.file(expiry), *of_expiry, "expire")

    on_table = ("--attachment-type", "table-like", "--attachment-path", "sales.eu.orders")
    polaris.run("policies", "attach", *inside, "--attachment-type", "catalog", "compact")
    polaris.run("policies", "attach", *inside, "--attachment-type", "namespace", "--attachment-path", "sales", "expire")
    polaris.run("policies", "attach", *inside, *on_table, "--parameters", "a=b", "expire")
    assert holds() == [("compact", False)]
    assert holds("--namespace", "sales") == [("compact", True), ("expire", False)]
    assert holds("--namespace", "sales.eu") == [("compact", True), ("expire", True)]
    assert holds("--namespace", "sales.eu", "--target-name", "orders") == [("compact", True), ("expire", False)]
    assert holds("--namespace", "sales.eu", "--target-name", "orders", *kind) == [("compact", True)]
    assert "compact (Inherited from" in polaris.run("tables", "summarize", *inside, "orders")

    polaris.run("policies", "detach", *inside, *on_table, "expire")
    assert holds("--namespace", "sales.eu", "--target-name", "orders") == [("compact", True), ("expire", True)]
    with pytest.raises(Refused, match="NoSuchMappingException"):
        polaris.run("policies", "detach", *inside, *on_table, "expire")
    with pytest.raises(Refused, match="PolicyInUseException"):
        polaris.run("policies", "delete", *inside, "compact")
    polaris.run("policies", "delete", *inside, "--detach-all", "compact")
    polaris.run("policies", "detach", *inside, "--attachment-type", "namespace", "--attachment-path", "sales", "expire")
    polaris.run("policies", "delete", *inside, "expire")
    assert holds("--namespace", "sales.eu", "--target-name", "orders") == []
    with pytest.raises(Refused, match="NoSuchPolicyException"):
        polaris.run("policies", "get", *inside, "compact")


def test_external_catalog_is_created(polaris: Polaris, catalog: str, base: str) -> None:
    polaris.run("namespaces", "create", "--catalog", catalog, "sales")
    near, uri = f"near_{uuid.uuid4().hex[:8]}", f"{polaris.server.endpoint}/api/catalog"
    behind = {
        "connection-type": "iceberg-rest",
        "uri": uri,
        "authentication-type": "oauth",
        "token-uri": f"{uri}/v1/oauth/tokens",
        "client-id": polaris.keys.access_key,
        "client-secret": polaris.keys.secret_key,
        "client-scope": "PRINCIPAL_ROLE:ALL",
    }
    flags = [word for name, value in behind.items() for word in (f"--catalog-{name}", value)]
    place = ("--type", "external", "--storage-type", "s3", "--default-base-location", f"{base}-near")
    polaris.run("catalogs", "create", *place, "--iceberg-remote-catalog-name", catalog, *flags, near)
    assert polaris.documents("namespaces", "list", "--catalog", near) == [{"namespace": "sales"}]
    shown = polaris.document("catalogs", "get", near)
    assert shown["connectionConfigInfo"]["uri"] == uri
    assert polaris.keys.secret_key not in json.dumps(shown)
    polaris.run("catalogs", "delete", near)


def test_setup_file_is_idempotent_and_exported(polaris: Polaris, base: str) -> None:
    name = f"setup_{uuid.uuid4().hex[:8]}"
    role = f"{name}_role"
    setup = {
        "principals": {f"{name}_user": {"roles": [role]}},
        "principal_roles": [role],
        "catalogs": [
            {
                "name": name,
                "storage_type": "s3",
                "default_base_location": f"{base}/",
                "roles": {
                    "content": {
                        "assign_to": [role],
                        "privileges": {
                            "catalog": ["CATALOG_MANAGE_CONTENT"],
                            "namespace": {"dev": ["TABLE_LIST"]},
                        },
                    }
                },
                "namespaces": ["dev", "dev.inner"],
                "policies": {
                    "compact": {
                        "namespace": "dev",
                        "type": "system.data-compaction",
                        "content": COMPACTION,
                        "attach": [{"type": "namespace", "path": "dev"}],
                    }
                },
            }
        ],
    }
    file = polaris.folder / "setup.yaml"
    file.write_text(yaml.safe_dump(setup))
    polaris.run("setup", "apply", "--dry-run", file)
    assert name not in polaris.names("catalogs", "list")
    for _ in range(2):
        polaris.run("setup", "apply", file)
    exported = yaml.safe_load(polaris.run("setup", "export"))
    (made,) = (one for one in exported["catalogs"] if one["name"] == name)
    assert exported["principals"][f"{name}_user"]["roles"] == [role]
    assert role in exported["principal_roles"]
    assert made["default_base_location"] == f"{base}/"
    assert made["roles"]["content"] == {
        "assign_to": [role],
        "privileges": {
            "catalog": ["CATALOG_MANAGE_CONTENT"],
            "namespace": [{"namespace": ["dev"], "privileges": ["TABLE_LIST"]}],
        },
    }
    assert [one["name"] for one in made["namespaces"]] == [["dev"], ["dev", "inner"]]
    (policy,) = made["policies"]
    assert (policy["name"], policy["namespace"], json.loads(policy["content"])) == ("compact", ["dev"], COMPACTION)
    applied = polaris.documents("policies", "list", "--catalog", name, "--namespace", "dev.inner", "--applicable")
    assert [(one["name"], one["inherited"]) for one in applied] == [("compact", True)]

"""Apache Polaris' command line on a running server: its getting-started guide, and the rest of what it does.

Each command is a process of its own, with the flags and variables that its guide has.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]  # has no types
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.clients.boto import Keys, connected, root_keys
from tests.clients.iceberg.federated import HOSTS
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.fixtures.polaris_cli import find_or_install_polaris
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NOT_IN: Final = "invalid_client|401"
NOT_THERE: Final = r"NotFoundException|NoSuch\w+Exception"

COMPACTION: Final = {
    "version": "2025-02-03",
    "enable": True,
    "config": {
        "target_file_size_bytes": 134217728,
        "compaction_strategy": "bin-pack",
        "max-concurrent-file-group-rewrites": 5,
    },
}
"""As Polaris' own page on policies has it."""


class Refused(Exception):
    """The command ended with an error, in its own words."""


@dataclass(frozen=True)
class Polaris:
    """`polaris`, as somebody."""

    program: Path
    server: RunningServer
    folder: Path
    keys: Keys

    def run(self, *words: str | Path) -> str:
        """What a command printed. Raises Refused."""
        return self.end(*words).stdout

    def end(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command at its end. Raises Refused."""
        at = ("--host", "127.0.0.1", "--port", str(self.server.port))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CLIENT_ID": self.keys.access_key,
            "CLIENT_SECRET": self.keys.secret_key,
        }
        done = subprocess.run([self.program, *at, *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr)
        return done

    def documents(self, *words: str | Path) -> list[Any]:  # Any: JSON
        """The documents that a command printed, one a line."""
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def document(self, *words: str | Path) -> Any:  # Any: JSON
        """The one document that a command printed."""
        (found,) = self.documents(*words)
        return found

    def names(self, *words: str | Path) -> list[str]:
        """The names of what a command listed."""
        return sorted(one["name"] for one in self.documents(*words))

    def principal(self, *words: str) -> Keys:
        """What a command that shows credentials printed."""
        shown = self.document("principals", *words)
        return Keys(shown["clientId"], shown["clientSecret"])

    def as_user(self, keys: Keys) -> Polaris:
        return Polaris(self.program, self.server, self.folder, keys)

    def file(self, document: object) -> Path:
        """A file to name in a command."""
        path = self.folder / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(document))
        return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of these tests' own: what they list is what they made."""
    with running_server(tmp_path_factory.mktemp("polaris") / "data", **{HOSTS: "127.0.0.1"}) as running:
        yield running
        assert "Traceback" not in running.log_text(), running.log_text()[-4000:]


@pytest.fixture
def polaris(server: RunningServer, tmp_path: Path) -> Polaris:
    """As root."""
    return Polaris(find_or_install_polaris(), server, tmp_path, root_keys(server))


@pytest.fixture
def base(server: RunningServer) -> str:
    """Where a catalog can be."""
    bucket = f"bucket-{uuid.uuid4().hex[:16]}"
    with connected(server) as s3:
        s3.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/quickstart"


@pytest.fixture
def catalog(polaris: Polaris, base: str) -> str:
    """A new catalog."""
    name = f"catalog_{uuid.uuid4().hex[:8]}"
    polaris.run("catalogs", "create", "--storage-type", "s3", "--default-base-location", base, name)
    return name


@contextmanager
def iceberg(polaris: Polaris, catalog: str) -> Iterator[RestCatalog]:
    """PyIceberg with the same credential."""
    settings = {
        "uri": f"{polaris.server.endpoint}/api/catalog",
        "warehouse": catalog,
        "credential": f"{polaris.keys.access_key}:{polaris.keys.secret_key}",
        "oauth2-server-uri": f"{polaris.server.endpoint}/api/catalog/v1/oauth/tokens",
        "scope": "PRINCIPAL_ROLE:ALL",
    }
    with closing(RestCatalog("quickstart", **settings)) as opened:
        yield opened


def test_the_guide_is_followed_to_its_end(polaris: Polaris, base: str) -> None:
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

    # And what was made goes again.
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


def test_catalogs_are_shown_and_changed(polaris: Polaris, catalog: str, base: str) -> None:
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


def test_principals_and_their_credentials(polaris: Polaris) -> None:
    name = f"user_{uuid.uuid4().hex[:8]}"
    first = polaris.principal("create", "--property", "team=sales", name)
    assert polaris.document("principals", "get", name)["properties"] == {"team": "sales"}
    polaris.run("principals", "update", "--set-property", "team=hr", name)
    assert polaris.document("principals", "get", name)["properties"] == {"team": "hr"}
    assert {"root", name} <= set(polaris.names("principals", "list"))
    with pytest.raises(Refused, match="AlreadyExistsException"):
        polaris.run("principals", "create", name)

    # A secret is good until the rotation after the next one, or until the first reset.
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


def test_roles_and_privileges(polaris: Polaris, catalog: str) -> None:
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
    assert polaris.documents("tables", "list", *inside) == [{"namespace": "sales.eu", "name": "orders"}]
    loaded = polaris.document("tables", "get", *inside, "orders")
    assert [field["name"] for field in loaded["metadata"]["schemas"][0]["fields"]] == ["id", "name", "day"]
    summary = polaris.run("tables", "summarize", *inside, "orders")
    assert "Exception" not in summary
    assert "No policies apply to this table" in summary
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
    told = ("--policy-description", "small files become large ones")
    polaris.run("policies", "create", *inside, "--policy-file", polaris.file(COMPACTION), *kind, *told, "compact")
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
    assert (made["version"], made["inheritable"], made["description"]) == (0, True, told[1])
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


def test_a_catalog_elsewhere_is_connected(polaris: Polaris, catalog: str, base: str) -> None:
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
    assert shown["connectionConfigInfo"]["remoteCatalogName"] == catalog
    assert polaris.keys.secret_key not in json.dumps(shown)


def test_a_setup_is_applied_once_and_exported_again(polaris: Polaris, base: str) -> None:
    name = f"setup_{uuid.uuid4().hex[:8]}"
    role = f"{name}_role"
    asked = {
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
    file.write_text(yaml.safe_dump(asked))
    polaris.run("setup", "apply", "--dry-run", file)
    assert name not in polaris.names("catalogs", "list")
    for _ in range(2):
        # It logs what fails, and ends as if nothing had.
        said = polaris.end("setup", "apply", file).stderr
        assert "Failed" not in said, said
    told = yaml.safe_load(polaris.run("setup", "export"))
    (made,) = (one for one in told["catalogs"] if one["name"] == name)
    assert told["principals"][f"{name}_user"]["roles"] == [role]
    assert role in told["principal_roles"]
    assert made["default_base_location"] == f"{base}/"
    assert made["roles"]["content"] == asked["catalogs"][0]["roles"]["content"]
    assert "dev" in [one if isinstance(one, str) else one["name"] for one in made["namespaces"]]
    assert json.loads(made["policies"]["compact"]["content"]) == COMPACTION
    applied = polaris.documents("policies", "list", "--catalog", name, "--namespace", "dev.inner", "--applicable")
    assert [(one["name"], one["inherited"]) for one in applied] == [("compact", True)]


def test_who_is_not_let_in_is_told_so(polaris: Polaris, catalog: str) -> None:
    with pytest.raises(Refused, match=NOT_IN):
        polaris.as_user(Keys(polaris.keys.access_key, "not the secret")).run("catalogs", "list")
    nobody = polaris.as_user(polaris.principal("create", f"nobody_{uuid.uuid4().hex[:8]}"))
    for words in (
        ("catalogs", "get", catalog),
        ("principals", "create", "another"),
        ("catalog-roles", "create", "--catalog", catalog, "mine"),
        ("namespaces", "create", "--catalog", catalog, "mine"),
        ("policies", "list", "--catalog", catalog, "--applicable"),
    ):
        with pytest.raises(Refused, match="ForbiddenException"):
            nobody.run(*words)


"""The example compaction service with a running server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import pytest
from examples.compaction_service import service as example
from examples.compaction_service.service import Catalog, Service, Table

from tests.clients.boto import root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.plain_http import fetch
from tests.clients.users import administer
from tests.fixtures.server import RunningServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

MANAGEMENT: Final = "/api/management/v1"
GRANTS: Final = ("NAMESPACE_LIST", "TABLE_LIST", "TABLE_WRITE_DATA")
"""The privileges of the service's principal on a catalog: to find tables and to rewrite them."""
EVENTS: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "lakebed:ReadEvents", "Resource": "*"}],
}


@dataclass
class MaintainedCatalog:
    """A catalog, administered by root."""

    lake: Lake
    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = root_keys(self.lake.server)
        form = {"grant_type": "client_credentials", "client_id": keys.access_key, "client_secret": keys.secret_key}
        response = fetch(
            "POST",
            f"{self.lake.server.endpoint}/iceberg/v1/oauth/tokens",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        self.headers = {"Authorization": f"Bearer {json.loads(response.body)['access_token']}"}

    def call(self, method: str, path: str, document: object) -> Any:  # Any: JSON
        url = f"{self.lake.server.endpoint}{path}"
        headers = {**self.headers, "Content-Type": "application/json"}
        response = fetch(method, url, headers=headers, body=json.dumps(document).encode())
        assert response.status < 300, (path, response.status, response.body)
        return json.loads(response.body) if response.body else None

    def principal(self, *, reads_events: bool = True) -> Catalog:
        """Create a principal with the service's privileges; return its client of the catalog."""
        name, warehouse = f"compaction-{uuid.uuid4().hex[:12]}", self.lake.warehouse
        credentials = self.call("POST", f"{MANAGEMENT}/principals", {"principal": {"name": name}})["credentials"]
        self.call("POST", f"{MANAGEMENT}/principal-roles", {"principalRole": {"name": name}})
        roles = f"{MANAGEMENT}/catalogs/{warehouse}/catalog-roles"
        self.call("POST", roles, {"catalogRole": {"name": name}})
        for privilege in GRANTS:
            self.call("PUT", f"{roles}/{name}/grants", {"grant": {"type": "catalog", "privilege": privilege}})
        role = {"catalogRole": {"name": name}}
        self.call("PUT", f"{MANAGEMENT}/principal-roles/{name}/catalog-roles/{warehouse}", role)
        self.call("PUT", f"{MANAGEMENT}/principals/{name}/principal-roles", {"principalRole": {"name": name}})
        if reads_events:
            document = self.folder / "events.json"
            document.write_text(json.dumps(EVENTS))
            administer(self.lake.server, "policy", "put", name, "events", str(document))
        return Catalog(self.lake.server.endpoint, warehouse, credentials["clientId"], credentials["clientSecret"])

    def policy(self, name: str, namespace: str, config: Mapping[str, object] = {}, *, enable: bool = True) -> None:
        content = json.dumps({"enable": enable, "config": config})
        document = {"name": name, "type": "system.data-compaction", "content": content}
        self.call("POST", self._policies(namespace), document)

    def change(self, name: str, namespace: str, version: int, **config: object) -> None:
        document = {"content": json.dumps({"enable": True, "config": config}), "current-policy-version": version}
        self.call("PUT", f"{self._policies(namespace)}/{name}", document)

    def attach(self, name: str, namespace: str, *path: str, **parameters: str) -> None:
        kinds = ("catalog", "namespace", "table-like")
        target = {"type": kinds[len(path)], "path": list(path)}
        document = {"target": target, "parameters": parameters}
        self.call("PUT", f"{self._policies(namespace)}/{name}/mappings", document)

    def _policies(self, namespace: str) -> str:
        return f"/polaris/v1/{self.lake.warehouse}/namespaces/{quote(namespace)}/policies"


@dataclass
class RecordedCompaction:
    """A compaction that commits a new snapshot and records its calls."""

    lake: Lake
    calls: list[tuple[Table, dict[str, str]]] = field(default_factory=list)

    def __call__(self, table: Table, options: Mapping[str, str]) -> None:
        self.calls.append((table, dict(options)))
        with self.lake.catalog() as catalog:
            loaded = catalog.load_table((*table.namespace, table.name))
            loaded.overwrite(loaded.scan().to_arrow())


@pytest.fixture
def maintained(lakebed_server: RunningServer, tmp_path: Path) -> MaintainedCatalog:
    """A catalog with two tables of three appends each, one of them in a nested namespace, and an empty one."""
    lake = new_lake(lakebed_server)
    with lake.catalog() as catalog:
        for namespace in (("sales",), ("sales", "eu")):
            catalog.create_namespace(namespace)
            table = catalog.create_table((*namespace, "orders"), SCHEMA)
            for number in range(3):
                table.append(people(number))
        catalog.create_table(("sales", "empty"), SCHEMA)
    return MaintainedCatalog(lake, tmp_path)


ORDERS, NESTED_ORDERS, EMPTY = Table(("sales",), "orders"), Table(("sales", "eu"), "orders"), Table(("sales",), "empty")


def test_example_is_short() -> None:
    assert len(Path(example.__file__).read_text().splitlines()) < 150


def test_tables_are_found_at_every_namespace_level(maintained: MaintainedCatalog) -> None:
    assert sorted(maintained.principal().tables()) == sorted([ORDERS, NESTED_ORDERS, EMPTY])


def test_tables_are_compacted_once_for_each_policy_version(maintained: MaintainedCatalog) -> None:
    compact = RecordedCompaction(maintained.lake)
    service = Service(maintained.principal(), compact)
    assert service.sweep() == []
    maintained.policy("compact", "sales", {"target_file_size_bytes": 1048576, "colour": "red"})
    maintained.attach("compact", "sales")
    assert sorted(service.sweep()) == sorted([ORDERS, NESTED_ORDERS])
    assert compact.calls[0][1] == {"target-file-size-bytes": "1048576"}
    # The service's own commits trigger no compaction.
    assert service.sweep() == []
    maintained.change("compact", "sales", 0, **{"min-input-files": 2})
    assert sorted(service.sweep()) == sorted([ORDERS, NESTED_ORDERS])
    assert compact.calls[-1][1] == {"min-input-files": "2"}
    # Another policy with the same version, attached closer to the table.
    maintained.policy("not-here", "sales", enable=False)
    maintained.attach("not-here", "sales", "sales", "orders")
    maintained.policy("nearer", "sales", {"min-input-files": 3})
    maintained.attach("nearer", "sales", "sales")
    assert service.sweep() == [NESTED_ORDERS]
    # The same policy with other parameters.
    maintained.attach("nearer", "sales", "sales", **{"min-input-files": "4"})
    assert service.sweep() == [NESTED_ORDERS]
    assert compact.calls[-1] == (NESTED_ORDERS, {"min-input-files": "4"})


def test_commits_and_policy_changes_trigger_compaction(maintained: MaintainedCatalog) -> None:
    compact = RecordedCompaction(maintained.lake)
    catalog = maintained.principal()
    service = Service(catalog, compact)
    maintained.policy("compact", "sales")
    maintained.attach("compact", "sales", "sales", "orders")
    after = catalog.events(limit=0)["last-seq"]
    assert service.sweep() == [ORDERS]
    after, compacted = service.react(after, wait_seconds=0)
    assert compacted == []
    with maintained.lake.catalog() as root:
        root.load_table(("sales", "orders")).append(people(7))
        root.load_table(("sales", "eu", "orders")).append(people(7))
    after, compacted = service.react(after)
    assert compacted == [ORDERS]
    maintained.attach("compact", "sales", "sales")
    reacted: list[Table] = []
    while not reacted:
        after, reacted = service.react(after)
    assert reacted == [NESTED_ORDERS]


def test_dropped_tables_are_skipped(maintained: MaintainedCatalog) -> None:
    catalog = maintained.principal()
    service = Service(catalog, RecordedCompaction(maintained.lake))
    maintained.policy("compact", "sales")
    maintained.attach("compact", "sales")
    after = catalog.events(limit=0)["last-seq"]
    with maintained.lake.catalog() as root:
        root.drop_table(("sales", "orders"))
    assert service.react(after)[1] == []


def test_missing_permission_to_read_events_is_reported(maintained: MaintainedCatalog) -> None:
    with pytest.raises(SystemExit, match="lakebed:ReadEvents"):
        maintained.principal(reads_events=False).events(limit=0)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark leaves one to the garbage collector
def test_spark_compacts_files_and_keeps_rows(maintained: MaintainedCatalog, spark: SparkSession) -> None:
    catalog = maintained.principal()
    service = Service(catalog, example.spark_compaction(catalog, spark))
    maintained.policy("compact", "sales", {"min-input-files": 2})
    maintained.attach("compact", "sales")
    assert sorted(service.sweep()) == sorted([ORDERS, NESTED_ORDERS])
    assert service.sweep() == []
    with maintained.lake.catalog() as root:
        for namespace in (("sales",), ("sales", "eu")):
            table = root.load_table((*namespace, "orders"))
            assert len(list(table.scan().plan_files())) == 1
            assert ids_of(table) == [0, 1, 2]

"""Tables with columns of many types, restrictions, and the policies for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lakebed.catalog.policies.attachments import TargetName
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.core.access import ActivatedRoles, Session
from lakebed.governance.policies import Restriction
from lakebed.governance.policies.column_masks import read_masks
from lakebed.governance.policies.row_filters import read_filter
from lakebed.governance.rbac import rows
from lakebed.governance.rbac.model import pack_properties
from lakebed.iceberg.commits.builder import build_table
from lakebed.iceberg.commits.updates import parse_table_updates
from lakebed.iceberg.documents import encode
from lakebed.iceberg.metadata import TableMetadata
from lakebed.meta.seam import Transaction
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness
from tests.catalog.policies.policy_catalog import TABLE, PolicyHarness

UUID = "00000000-0000-0000-0000-00000000000a"

FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "region", "required": False, "type": "string"},
    {"id": 3, "name": "ssn", "required": True, "type": "string"},
    {"id": 4, "name": "born", "required": False, "type": "date"},
    {
        "id": 5,
        "name": "inner",
        "required": False,
        "type": {"type": "struct", "fields": [{"id": 6, "name": "a.b", "required": False, "type": "int"}]},
    },
    {
        "id": 7,
        "name": "tags",
        "required": False,
        "type": {"type": "list", "element-id": 8, "element": "string", "element-required": False},
    },
]


def a_schema(*fields: dict[str, Any], schema_id: int = 0, identifiers: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema_id, "fields": list(fields), "identifier-field-ids": identifiers}


def a_snapshot(snapshot_id: int, *, schema_id: int = 0, **more: Any) -> list[dict[str, Any]]:
    """The updates that add a snapshot to the main branch."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id,
        "timestamp-ms": 1_700_000_000_000 + snapshot_id,
        "manifest-list": f"s3://lake/t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "total-records": "7", "partitions.region=EU": "x"},
        "schema-id": schema_id,
        **more,
    }
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]


def a_table(*updates: dict[str, Any], fields: list[dict[str, Any]] = FIELDS, version: int = 2) -> TableMetadata:
    """A partitioned and sorted table, with further updates."""
    made = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": a_schema(*fields, identifiers=(1,))},
        {"action": "set-current-schema", "schema-id": -1},
        {
            "action": "add-spec",
            "spec": {"fields": [{"source-id": 2, "field-id": 1000, "transform": "identity", "name": "region"}]},
        },
        {"action": "set-default-spec", "spec-id": -1},
        {
            "action": "add-sort-order",
            "sort-order": {
                "order-id": 1,
                "fields": [{"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
            },
        },
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://lake/t"},
        {"action": "set-properties", "updates": {"write.data.path": "s3://lake/t/data", "owner": "me"}},
        *updates,
    ]
    return build_table(None, parse_table_updates(encode(made)), now_ms=1_700_000_000_000, new_uuid=UUID)


def a_restriction(*filters: Any, key: str = "k", **columns: Any) -> Restriction:
    """The restriction of policies with these filters and masks."""
    masks = read_masks(columns, ("columns",)) if columns else {}
    return Restriction(
        key,
        tuple(read_filter(one, ("filter",)) for one in filters),
        {name.lower(): mask for name, mask in masks.items()},
        ("ns.p v0",),
    )


def content(says: dict[str, Any], *, enable: bool = True, **restricts: Any) -> str:
    """The content of a policy that restricts ann, or the given principals."""
    audience = {key.replace("_", "-"): value for key, value in (restricts or {"principals": ["ann"]}).items()}
    return json.dumps({"enable": enable, "restricts": audience, **says})


async def restrict_rows(
    policing: PolicyHarness, name: str = "p", target: TargetName = TABLE, condition: Any = False, **restricts: Any
) -> None:
    """Attach a row filter."""
    await policing.create(name, "lakebed.row-filter", content({"filter": condition}, **restricts))
    await policing.attach(name, target)


async def role(catalog: CatalogHarness, name: str, *members: str, federated: bool = False) -> None:
    """Create a principal role with members."""

    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM principal_roles WHERE name = ?", name)
        await tx.run(rows.INSERT_PRINCIPAL_ROLE, name, int(federated), pack_properties({}), 0, 0)
        found = await tx.row(rows.PRINCIPAL_ROLE, name)
        assert found is not None
        for member in members:
            await tx.run(rows.ADD_PRINCIPAL, member, found[0])

    await catalog.store.meta.transact(work)


def wire_scans(catalog: CatalogHarness) -> ScanPlans:
    """Scan planning on a catalog, for restricted callers too."""
    store = catalog.store
    return ScanPlans(store.meta, catalog.files, catalog.entries, catalog.commits, store.clock, catalog.copies)


def delegated(caller: Caller, table: str, activated: ActivatedRoles | None = None) -> Caller:
    """The caller with credentials vended for a table's files."""
    policy = b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
    session = Session(None, 0, 2**62, (policy,), delegated_for=table, activated=activated)
    return caller._replace(principal=replace(caller.principal, session=session))

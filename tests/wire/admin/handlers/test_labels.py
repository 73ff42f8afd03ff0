from __future__ import annotations

import json
from typing import Any

import pytest

from lakebed.governance.labels import LabelKind
from lakebed.wire.admin.operations import admin_mount
from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.lake import allow

TABLE = "/labels/table/lake/ns/t"
PATHS = {
    "catalog": "/labels/catalog/lake",
    "namespace": "/labels/namespace/lake/ns",
    "table": TABLE,
    "policy": "/labels/policy/lake/ns/p",
    "generic-table": "/labels/generic-table/lake/ns/g",
    "catalog-role": "/labels/catalog-role/lake/catalog_admin",
    "principal": "/labels/principal/ann",
    "principal-role": "/labels/principal-role/service_admin",
}


async def create_entities(admin: Admin) -> None:
    polaris = "/polaris/v1/lake/namespaces/ns"
    policy = {"name": "p", "type": "system.data-compaction", "content": '{"enable": true}'}
    for path, document in (("policies", policy), ("generic-tables", {"name": "g", "format": "csv"})):
        created = await admin.lake.send("POST", f"{polaris}/{path}", json.dumps(document).encode())
        assert created.status == 200, created.body
    await admin.lake.principals.create_user("ann")


async def label(admin: Admin, path: str = TABLE, **document: Any) -> Any:
    answer = await admin.call("PATCH", path, {key.replace("_", "-"): value for key, value in document.items()})
    assert answer.status == 200, answer
    return answer.document


def test_every_kind_has_its_routes() -> None:
    paths = {
        (route.method, route.path.split("/")[3]) for route in admin_mount().routes.routes if "/labels/" in route.path
    }
    assert paths == {(method, kind.value) for kind in LabelKind for method in ("GET", "PATCH")}


@pytest.mark.parametrize("kind", PATHS)
async def test_labels_are_set_and_returned(admin: Admin, kind: str) -> None:
    await create_entities(admin)
    owner = {"type": "principal", "name": "ann"}
    changed = await label(admin, PATHS[kind], set_tags={"tier": "gold"}, owner=owner)
    assert (changed["kind"], changed["tags"], changed["owner"]) == (kind, {"tier": "gold"}, owner)
    assert (await admin.call("GET", PATHS[kind])).document == changed
    found = (await admin.call("GET", f"/labels?tag=tier:gold&owner=principal:ann&kind={kind}")).document
    assert found == {"labelled": [changed]}


async def test_absent_fields_stay_unchanged(admin: Admin) -> None:
    owner = {"type": "principal-role", "name": "service_admin"}
    await label(admin, set_tags={"a": "1", "b": "2"}, owner=owner)
    changed = await label(admin, set_tags={"b": "3"}, remove_tags=["a"])
    assert changed == {
        "kind": "table",
        "catalog": "lake",
        "namespace": ["ns"],
        "name": "t",
        "tags": {"b": "3"},
        "owner": owner,
    }
    assert (await label(admin, owner=None))["owner"] is None


async def test_found_entities_are_paged(admin: Admin) -> None:
    for name in ("t", "u", "v"):
        if name != "t":
            await admin.lake.table(name)
        await label(admin, f"/labels/table/lake/ns/{name}", set_tags={"tier": "gold", "of": "mine: all"})
    query = "tag=tier:gold&tag=of:mine%3A+all"
    labelled = await admin.pages(f"/labels?{query}", "labelled")
    assert sorted(one["name"] for one in labelled) == ["t", "u", "v"]
    token = (await admin.call("GET", f"/labels?{query}&page-size=2")).document["next-page-token"]
    foreign = await admin.call("GET", f"/labels?tag=tier:gold&page-token={token}")
    assert foreign.error == (400, "BadRequestException")


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"set-tags": {"a:b": "1"}}, 400),
        ({"set-tags": {"a": 1}}, 400),
        ({"set-tags": {"a": "1"}, "remove-tags": ["a"]}, 422),
        ({"tags": {"a": "1"}}, 400),
        ({"owner": "ann"}, 400),
        ({"owner": {"type": "group", "name": "ann"}}, 400),
        ({"owner": {"type": "principal", "name": ""}}, 400),
        ({"owner": {"type": "principal", "name": "none"}}, 404),
        ([], 400),
    ],
)
async def test_invalid_changes_are_refused(admin: Admin, document: Any, status: int) -> None:
    assert (await admin.call("PATCH", TABLE, document)).status == status
    assert (await admin.call("GET", TABLE)).document["tags"] == {}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/labels/table/lake/ns/none", (404, "NoSuchTableException")),
        ("/labels/view/lake/ns/t", (404, "NoSuchViewException")),
        ("/labels/namespace/lake/none", (404, "NoSuchNamespaceException")),
        ("/labels/catalog/none", (404, "NoSuchWarehouseException")),
        ("/labels/policy/lake/ns/none", (404, "NoSuchPolicyException")),
        ("/labels/principal/none", (404, "NotFoundException")),
        ("/labels/stream/lake/ns/t", (404, "NoSuchResourceException")),
        ("/labels/table/lake/ns/t?tag=a", (400, "BadRequestException")),
        ("/labels?tag=", (400, "BadRequestException")),
        ("/labels?owner=ann", (400, "BadRequestException")),
        ("/labels?kind=stream", (400, "BadRequestException")),
        ("/labels?owner=principal:a&owner=principal:b", (400, "BadRequestException")),
        ("/labels?" + "&".join(f"tag=k{number}" for number in range(11)), (400, "BadRequestException")),
        ("/labels?page-token=x", (400, "BadRequestException")),
    ],
)
async def test_invalid_requests_are_refused(admin: Admin, path: str, error: tuple[int, str]) -> None:
    assert (await admin.call("GET", path)).error == error


async def test_labels_require_permissions(admin: Admin) -> None:
    await label(admin, set_tags={"tier": "gold"})
    unprivileged = await admin.lake.user("unprivileged", allow("s3tables:*"))
    reader = await admin.lake.user("reader", allow("lakebed:GetLabels"))
    assert (await admin.call("GET", TABLE, keys=unprivileged)).error == (403, "ForbiddenException")
    assert (await admin.call("GET", "/labels?tag=tier", keys=unprivileged)).document == {"labelled": []}
    assert (await admin.call("GET", TABLE, keys=reader)).status == 200
    assert len((await admin.call("GET", "/labels?tag=tier", keys=reader)).document["labelled"]) == 1
    refused = await admin.call("PATCH", TABLE, {"set-tags": {"tier": "iron"}}, keys=reader)
    assert refused.error == (403, "ForbiddenException")
    assert (await admin.call("GET", TABLE, keys=None)).error == (401, "NotAuthorizedException")


async def test_changes_are_in_the_audit_log(admin: Admin) -> None:
    await label(admin, set_tags={"tier": "gold"})
    events = (await admin.call("GET", "/audit?kind=Labels*")).document["events"]
    assert [(one["kind"], one["subject"], one["payload"]["tags"]) for one in events] == [
        ("LabelsChanged", "lake/ns/t", {"tier": "gold"})
    ]

"""PyIceberg and views: create, load, list, register, drop."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.view.metadata import ViewVersion

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA

pytestmark = pytest.mark.integration


def version(namespace: str, sql: str = "SELECT 1 AS id", number: int = 1) -> ViewVersion:
    """The definition of a view."""
    return ViewVersion.model_validate(
        {
            "version-id": number,
            "schema-id": 0,
            "timestamp-ms": 1_700_000_000_000,
            "summary": {"engine-name": "tests"},
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
            "default-namespace": [namespace],
        }
    )


def test_view_is_created_and_dropped(catalog: RestCatalog, namespace: str) -> None:
    assert not catalog.view_exists((namespace, "v"))
    made = catalog.create_view((namespace, "v"), SCHEMA, version(namespace), properties={"owner": "tests"})
    assert catalog.view_exists((namespace, "v"))
    assert catalog.list_views(namespace) == [(namespace, "v")]
    assert catalog.list_tables(namespace) == []
    view = catalog.load_view((namespace, "v"))
    assert view.metadata == made.metadata
    assert view.metadata.properties["owner"] == "tests"
    assert view.metadata.versions[0].representations[0].root.sql == "SELECT 1 AS id"
    assert view.metadata.schemas[0].column_names == ["id", "name", "day"]
    catalog.drop_view((namespace, "v"))
    assert not catalog.view_exists((namespace, "v"))
    assert catalog.list_views(namespace) == []
    with pytest.raises(NoSuchViewError):
        catalog.drop_view((namespace, "v"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "v"))


def test_views_and_tables_share_one_set_of_names(catalog: RestCatalog, namespace: str) -> None:
    catalog.create_view((namespace, "v"), SCHEMA, version(namespace))
    catalog.create_table((namespace, "t"), SCHEMA)
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view((namespace, "t"), SCHEMA, version(namespace))
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view((namespace, "v"), SCHEMA, version(namespace))
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((namespace, "v"), SCHEMA)
    assert not catalog.table_exists((namespace, "v"))
    assert not catalog.view_exists((namespace, "t"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table((namespace, "v"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "t"))


def test_replaced_view_has_its_history(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    """PyIceberg has no operation to replace a view: another client does."""
    made = catalog.create_view((namespace, "v"), SCHEMA, version(namespace))
    changed = version(namespace, "SELECT 2 AS id", 2).model_dump(mode="json", by_alias=True, exclude_none=True)
    lake.call(
        "POST",
        f"namespaces/{namespace}/views/v",
        {
            "requirements": [{"type": "assert-view-uuid", "uuid": made.metadata.view_uuid}],
            "updates": [
                {"action": "add-view-version", "view-version": changed},
                {"action": "set-current-view-version", "view-version-id": -1},
            ],
        },
    )
    view = catalog.load_view((namespace, "v"))
    assert view.metadata.current_version_id == 2
    assert [one.representations[0].root.sql for one in view.metadata.versions] == ["SELECT 1 AS id", "SELECT 2 AS id"]


def test_view_is_registered_from_its_metadata(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    made = catalog.create_view((namespace, "v"), SCHEMA, version(namespace))
    location = lake.call("GET", f"namespaces/{namespace}/views/v")["metadata-location"]
    catalog.drop_view((namespace, "v"))
    again = catalog.register_view((namespace, "again"), location)
    assert again.metadata == made.metadata
    assert catalog.list_views(namespace) == [(namespace, "again")]


@pytest.mark.parametrize("name", ["with.dot", "ünïcödé", "with blank", "100%"])
def test_view_of_any_name_is_found_and_dropped(lake: Lake, catalog: RestCatalog, namespace: str, name: str) -> None:
    """Created by another client: PyIceberg 0.12 URL-encodes the view's name in the request document."""
    document = {
        "name": name,
        "schema": SCHEMA.model_dump(mode="json", by_alias=True, exclude_none=True),
        "view-version": version(namespace).model_dump(mode="json", by_alias=True, exclude_none=True),
        "properties": {},
    }
    lake.call("POST", f"namespaces/{namespace}/views", document)
    assert catalog.list_views(namespace) == [(namespace, name)]
    assert catalog.view_exists((namespace, name))
    assert catalog.load_view((namespace, name)).name() == (namespace, name)
    catalog.drop_view((namespace, name))
    assert catalog.list_views(namespace) == []

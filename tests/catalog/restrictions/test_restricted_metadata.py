from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.restrictions.restricted_metadata import HIDDEN_LOCATION, restricted_metadata
from lakebed.iceberg.metadata import parse_table

from .subjects import a_restriction, a_snapshot, a_table


def shown(version: int = 2, **columns: Any) -> Any:
    more: dict[str, int] = {"first-row-id": 0, "added-rows": 7} if version > 2 else {}
    if version == 1:
        more = {"sequence-number": 0}
    table = a_table(*a_snapshot(1, **more), version=version)
    return msgspec.json.decode(restricted_metadata(table, a_restriction(False, **columns)))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_partitions_and_counts_are_hidden(version: int) -> None:
    document = shown(version)
    (snapshot,) = document["snapshots"]
    assert snapshot["snapshot-id"] == 1
    assert snapshot["manifest-list"] == HIDDEN_LOCATION
    assert snapshot["summary"] == {"operation": "append"}
    assert document["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert document["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert document["properties"] == {"owner": "me"}
    assert document["current-snapshot-id"] == 1
    assert document["refs"]["main"]["snapshot-id"] == 1
    text = msgspec.json.encode(document).decode()
    assert ".avro" not in text
    assert "region=EU" not in text


@pytest.mark.parametrize("version", [1, 2, 3])
def test_restricted_metadata_is_valid_table_metadata(version: int) -> None:
    document = shown(version, ssn="hash")
    parsed = parse_table(msgspec.json.encode(document))
    assert parsed.format_version == version
    assert not parsed.spec.fields


def test_unreferenced_snapshots_are_omitted_on_request() -> None:
    table = a_table(*a_snapshot(1), *a_snapshot(2, **{"parent-snapshot-id": 1}))
    for only, ids in ((False, [1, 2]), (True, [2])):
        shown_to = restricted_metadata(table, a_restriction(False), referenced_snapshots_only=only)
        assert [one["snapshot-id"] for one in msgspec.json.decode(shown_to)["snapshots"]] == ids


def test_masked_columns_are_optional_and_others_unchanged() -> None:
    (schema,) = shown(ssn="hash")["schemas"]
    assert {field["name"]: field["required"] for field in schema["fields"]} == {
        "id": True,
        "region": False,
        "ssn": False,
        "born": False,
        "inner": False,
        "tags": False,
    }
    assert "identifier-field-ids" not in schema

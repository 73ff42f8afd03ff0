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
def test_nothing_is_told_of_files_partitions_or_counts(version: int) -> None:
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
def test_what_is_shown_is_a_table_s_metadata(version: int) -> None:
    document = shown(version, ssn="hash")
    parsed = parse_table(msgspec.json.encode(document))
    assert parsed.format_version == version
    assert not parsed.spec.fields


def test_snapshots_that_nothing_names_are_left_out_if_the_client_wants_it() -> None:
    table = a_table(*a_snapshot(1), *a_snapshot(2, **{"parent-snapshot-id": 1}))
    for only, ids in ((False, [1, 2]), (True, [2])):
        shown_to = restricted_metadata(table, a_restriction(False), referenced_snapshots_only=only)
        assert [one["snapshot-id"] for one in msgspec.json.decode(shown_to)["snapshots"]] == ids


def test_masked_columns_may_be_empty_and_others_are_as_they_were() -> None:
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

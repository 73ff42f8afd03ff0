from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata import parse_table, serialize_table

from ..samples import Json, dump
from ..test_documents import values

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = ["v1-first", "v1", "v2", "v3"]


def golden(name: str) -> Json:
    document: Json = json.loads((GOLDEN / f"{name}.json").read_bytes())
    return document


@pytest.mark.parametrize("name", VERSIONS)
def test_golden_documents_are_unchanged(name: str) -> None:
    metadata = parse_table((GOLDEN / f"{name}.json").read_bytes())
    assert serialize_table(metadata) == (GOLDEN / f"{name}.written.json").read_bytes().rstrip(b"\n")


@pytest.mark.parametrize("name", VERSIONS)
def test_serialized_documents_round_trip(name: str) -> None:
    metadata = parse_table((GOLDEN / f"{name}.json").read_bytes())
    text = serialize_table(metadata)
    assert parse_table(text) == metadata
    assert serialize_table(parse_table(text)) == text


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("earlier", VERSIONS)
def test_parsing_beside_an_earlier_document_gives_the_same_result(name: str, earlier: str) -> None:
    like = parse_table((GOLDEN / f"{earlier}.json").read_bytes())
    document = (GOLDEN / f"{name}.json").read_bytes()
    assert parse_table(document, like) == parse_table(document)


@pytest.mark.parametrize("name", ["v2", "v3"])
def test_every_field_is_preserved(name: str) -> None:
    document = golden(name)
    again = json.loads(serialize_table(parse_table(dump(document))))
    assert {key: again[key] for key in document} == document


def test_early_table_is_completed() -> None:
    metadata = parse_table((GOLDEN / "v1-first.json").read_bytes())
    assert metadata.uuid is None
    assert list(metadata.schemas) == [0]
    assert [field.field_id for field in metadata.spec.fields] == [1000, 1001]
    assert metadata.last_partition_id == 1001
    assert metadata.sort_order.fields == ()
    (only,) = metadata.snapshots.values()
    assert only.manifests == ("s3://lake/old/metadata/m0.avro", "s3://lake/old/metadata/m1.avro")
    assert only.sequence_number == 0
    assert metadata.refs["main"].snapshot_id == metadata.current_snapshot_id == only.snapshot_id
    assert metadata.current_snapshot is only
    assert metadata.snapshot_log == ()


def test_missing_current_snapshot_is_written_per_version() -> None:
    v2 = {**golden("v2"), "snapshots": [], "refs": {}, "current-snapshot-id": None, "snapshot-log": []}
    assert json.loads(serialize_table(parse_table(dump(v2))))["current-snapshot-id"] == -1
    v3 = {**golden("v3"), "snapshots": [], "refs": {}, "current-snapshot-id": -1, "snapshot-log": []}
    assert json.loads(serialize_table(parse_table(dump(v3))))["current-snapshot-id"] is None
    del v3["current-snapshot-id"]
    assert parse_table(dump(v3)).current_snapshot is None


def test_optional_fields_can_be_null_or_missing() -> None:
    document = golden("v2")
    for name in ("properties", "refs", "snapshot-log", "metadata-log", "statistics"):
        for changed in ({**document, name: None}, {key: document[key] for key in document if key != name}):
            assert parse_table(dump(changed)).format_version == 2


def test_only_referenced_snapshots_are_written_on_request() -> None:
    document = golden("v2")
    del document["refs"]["audit"]
    metadata = parse_table(dump(document))
    short = json.loads(serialize_table(metadata, referenced_snapshots_only=True))
    full = json.loads(serialize_table(metadata))
    assert [one["snapshot-id"] for one in short["snapshots"]] == [metadata.current_snapshot_id]
    assert len(full["snapshots"]) == 2
    assert {**short, "snapshots": full["snapshots"]} == full


@pytest.mark.parametrize("name", VERSIONS)
@given(
    place=st.sampled_from(
        ["", "schemas", "partition-specs", "sort-orders", "snapshots", "snapshot-log", "metadata-log"]
    ),
    key=st.text(min_size=1).map(lambda text: f"x-{text}"),
    value=values,
)
def test_unknown_fields_survive_anywhere(name: str, place: str, key: str, value: object) -> None:
    document = golden(name)
    if place and not document.get(place):
        return
    holder = document if not place else document[place][-1]
    holder[key] = value
    again = json.loads(serialize_table(parse_table(dump(document))))
    assert (again if not place else again[place][-1])[key] == value


@given(st.binary())
def test_noise_is_rejected_and_never_crashes(noise: bytes) -> None:
    with suppress(InvalidInput):
        parse_table(noise)


@given(st.sampled_from(VERSIONS), st.data())
def test_any_value_in_any_field_is_parsed_or_rejected(name: str, data: st.DataObject) -> None:
    document: Any = golden(name)  # Any: it is walked down, whatever it is
    holder = document
    while True:
        key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    holder[key] = data.draw(values)
    with suppress(InvalidInput):
        metadata = parse_table(dump(document))
        assert parse_table(serialize_table(metadata)) == metadata


@pytest.mark.parametrize("name", ["v2", "v3"])
@pytest.mark.parametrize(
    "field",
    [
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    ],
)
def test_required_fields_must_be_present(name: str, field: str) -> None:
    document = golden(name)
    del document[field]
    with pytest.raises(InvalidInput, match=f"table metadata: .*{field}"):
        parse_table(dump(document))


def test_version_3_requires_next_row_id() -> None:
    document = golden("v3")
    del document["next-row-id"]
    with pytest.raises(InvalidInput, match="next-row-id: missing, and required in format version 3"):
        parse_table(dump(document))


@pytest.mark.parametrize("field", ["schema", "partition-spec", "location", "last-updated-ms", "last-column-id"])
def test_fields_required_by_version_1_must_be_present(field: str) -> None:
    document = golden("v1-first")
    del document[field]
    with pytest.raises(InvalidInput, match=field):
        parse_table(dump(document))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format-version": 4}, "format-version: must be 1, 2 or 3. found=4"),
        ({"format-version": 0}, "format-version: expected `int` >= 1"),
        ({"location": ""}, "location: expected `str` of length >= 1"),
        ({"current-schema-id": 9}, "current-schema-id: unknown id. id=9"),
        ({"default-spec-id": 9}, "default-spec-id: unknown id. id=9"),
        ({"default-sort-order-id": 9}, "default-sort-order-id: unknown id. id=9"),
        ({"current-snapshot-id": 9}, "current-snapshot-id: unknown id. id=9"),
        ({"last-column-id": 2}, "last-column-id: below the highest id in use. found=2 highest=3"),
        ({"last-partition-id": 999}, "last-partition-id: below the highest id in use. found=999 highest=1000"),
        ({"last-sequence-number": 0}, r"snapshots\[1\].sequence-number: must not be above last-sequence-number"),
        ({"properties": {"a": 1}}, "expected `str`, got `int`"),
        (
            {"refs": {"main": {"snapshot-id": 3051729675574597004, "type": "branch"}}},
            "refs.main: must be a branch to the",
        ),
        ({"refs": {"main": {"snapshot-id": 3055729675574597004, "type": "tag"}}}, "refs.main: must be a branch to the"),
        ({"refs": {"b": {"snapshot-id": 9, "type": "branch"}}}, r"refs.b.snapshot-id: unknown id. id=9"),
        ({"refs": {"b": {"snapshot-id": 9, "type": "twig"}}}, "refs.b.type: invalid enum value 'twig'"),
        (
            {"refs": {"b": {"snapshot-id": 3055729675574597004, "type": "branch", "max-ref-age-ms": 0}}},
            "refs.b.max-ref-age-ms: expected `int` >= 1",
        ),
        ({"snapshots": {}}, "snapshots: expected `array`, got `object`"),
        ({"snapshots": [{"snapshot-id": 1, "timestamp-ms": 1}]}, r"snapshots\[0\].manifest-list: missing"),
        ({"snapshots": [{"timestamp-ms": 1}]}, r"snapshots\[0\]: object missing required field `snapshot-id`"),
        (
            {"snapshots": [{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "x"}] * 2},
            "snapshots: snapshot-id is repeated. snapshot-id=1",
        ),
        (
            {"snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 100_000}, {"snapshot-id": 1, "timestamp-ms": 39_999}]},
            r"snapshot-log\[1\].timestamp-ms: earlier than the previous entry",
        ),
        ({"statistics": [{"snapshot-id": 1}]}, r"statistics\[0\]: object missing required field"),
        ({"encryption-keys": [{"key-id": "a", "encrypted-key-metadata": ""}] * 2}, "key-id is repeated. key-id=a"),
    ],
)
def test_invalid_documents_are_rejected(changes: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_table(dump({**golden("v2"), **changes}))


def test_small_skew_in_a_log_is_tolerated() -> None:
    skewed = [{"snapshot-id": 1, "timestamp-ms": 100_000}, {"snapshot-id": 1, "timestamp-ms": 40_000}]
    assert len(parse_table(dump({**golden("v2"), "snapshot-log": skewed})).snapshot_log) == 2


@pytest.mark.parametrize("document", [b"[]", b"1", b"null", b'"x"'])
def test_document_must_be_an_object(document: bytes) -> None:
    with pytest.raises(InvalidInput, match="table metadata: document: expected `object`"):
        parse_table(document)

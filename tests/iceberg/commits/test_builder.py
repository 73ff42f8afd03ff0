"""Further updates, and rules of every commit."""

from __future__ import annotations

import json

import pytest

from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.commits import build_table
from lakebed.iceberg.metadata import TableMetadata, parse_table, serialize_table

from ..metadata.test_parsing import GOLDEN, golden
from ..samples import (
    COLUMNS,
    LOCATION,
    NOW,
    OTHER_UUID,
    UUID,
    Json,
    action,
    add_snapshot,
    commit,
    dump,
    make_table,
    partition,
    set_ref,
    sort,
    written,
)


def test_table_uuid_cannot_change() -> None:
    base = make_table()
    assert commit(base, action("assign-uuid", uuid=UUID.upper())) is base
    with pytest.raises(InvalidInput, match="the UUID of a table cannot change"):
        commit(base, action("assign-uuid", uuid=OTHER_UUID))


@pytest.mark.parametrize("uuid", ["", "x", UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"])
def test_invalid_uuid_is_rejected(uuid: str) -> None:
    with pytest.raises(InvalidInput, match="not a UUID"):
        commit(make_table(), action("assign-uuid", uuid=uuid))


def test_early_table_without_uuid_gets_one() -> None:
    base = parse_table((GOLDEN / "v1-first.json").read_bytes())
    assert base.uuid is None
    assert build_table(base, (), now_ms=NOW, new_uuid=UUID) is base
    assert commit(base, action("set-properties", updates={"a": "b"})).uuid == OTHER_UUID
    assert commit(base, action("assign-uuid", uuid=UUID)).uuid == UUID


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 3), (2, 3)])
def test_format_version_is_upgraded(before: int, after: int) -> None:
    upgraded = commit(make_table(before), action("upgrade-format-version", format_version=after))
    document = written(upgraded)
    assert document["format-version"] == after
    assert ("next-row-id" in document) is (after == 3)
    assert document["last-sequence-number"] == 0
    assert "schema" not in document
    assert parse_table(serialize_table(upgraded)) == upgraded


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (2, 1, "the format version of a table cannot be lowered. found=2 given=1"),
        (3, 2, "the format version of a table cannot be lowered. found=3 given=2"),
        (2, 4, "table format version must be 1, 2 or 3. format_version=4"),
        (2, 0, "table format version must be 1, 2 or 3. format_version=0"),
    ],
)
def test_other_versions_are_rejected(before: int, after: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        commit(make_table(before), action("upgrade-format-version", format_version=after))


def test_same_version_changes_nothing() -> None:
    base = make_table(2)
    assert commit(base, action("upgrade-format-version", format_version=2)) is base


def test_upgrade_adds_sequence_numbers_to_snapshots() -> None:
    base = parse_table((GOLDEN / "v1-first.json").read_bytes())
    upgraded = written(commit(base, action("upgrade-format-version", format_version=2)))
    assert [one["sequence-number"] for one in upgraded["snapshots"]] == [0]
    assert upgraded["snapshots"][0]["manifests"] == golden("v1-first")["snapshots"][0]["manifests"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [("s3://lake/new", "s3://lake/new"), ("s3://lake/new//", "s3://lake/new"), ("file:///", "file://")],
)
def test_location_has_no_trailing_slash(given: str, stored: str) -> None:
    assert commit(make_table(), action("set-location", location=given)).location == stored


def test_same_location_changes_nothing() -> None:
    base = make_table()
    assert commit(base, action("set-location", location=LOCATION + "/")) is base
    with pytest.raises(InvalidInput, match="location: expected `str` of length >= 1"):
        commit(base, action("set-location", location=""))


def test_properties_are_set_and_removed() -> None:
    base = make_table(properties={"a": "1", "b": "2"})
    after = commit(
        base, action("set-properties", updates={"a": "3", "c": "4"}), action("remove-properties", removals=["b", "no"])
    )
    assert {name: value for name, value in after.properties.items() if name in "abc"} == {"a": "3", "c": "4"}
    assert base.properties["b"] == "2"


@pytest.mark.parametrize(
    "updates",
    [
        [action("set-properties", updates={})],
        [action("set-properties", updates={"a": "1"})],
        [action("remove-properties", removals=["no"])],
        [action("set-properties", updates={"x": "1"}), action("remove-properties", removals=["x"])],
        [],
    ],
)
def test_updates_without_effect_return_the_same_object(updates: list[Json]) -> None:
    base = make_table(properties={"a": "1"})
    assert commit(base, *updates, now_ms=NOW + 5, previous_location="s3://lake/x.metadata.json") is base


@pytest.mark.parametrize(
    "name",
    [
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    ],
)
def test_reserved_properties_are_rejected(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"property is reserved and cannot be set.*property={name}") as caught:
        commit(make_table(), action("set-properties", updates={name: "2"}))
    assert caught.value.argument == name


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "٣", "9" * 20])
def test_interpreted_properties_are_validated(value: str) -> None:
    with pytest.raises(InvalidInput, match="property must be a whole number, at least 0"):
        commit(make_table(), action("set-properties", updates={"write.metadata.previous-versions-max": value}))


KEY: Json = {"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0", "encrypted-by-id": "kek", "x": 1}


def test_encryption_keys_are_added_once_and_removed() -> None:
    base = commit(make_table(3), action("add-encryption-key", encryption_key=KEY))
    assert written(base)["encryption-keys"] == [KEY]
    assert commit(base, action("add-encryption-key", encryption_key={**KEY, "encrypted-key-metadata": ""})) is base
    assert commit(base, action("remove-encryption-key", key_id="no")) is base
    assert "encryption-keys" not in written(commit(base, action("remove-encryption-key", key_id="k1")))


def test_used_encryption_key_cannot_be_removed() -> None:
    base = commit(make_table(3), action("add-encryption-key", encryption_key=KEY))
    used = commit(base, add_snapshot(1, 1, rows=(0, 1), key_id="k1"))
    with pytest.raises(CommitConflict, match=r"encryption key is used by a snapshot or another key\. key=k1"):
        commit(used, action("remove-encryption-key", key_id="k1"))
    commit(used, action("remove-encryption-key", key_id="k1"), action("remove-snapshots", snapshot_ids=[1]))
    commit(used, action("remove-encryption-key", key_id="k1"), action("add-encryption-key", encryption_key=KEY))
    wrapped = commit(
        base, action("add-encryption-key", encryption_key={**KEY, "key-id": "k2", "encrypted-by-id": "k1"})
    )
    with pytest.raises(CommitConflict, match="key=k1"):
        commit(wrapped, action("remove-encryption-key", key_id="k1"))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({**KEY, "key-id": ""}, "encryption-key.key-id: must not be empty"),
        ({**KEY, "encrypted-key-metadata": "not base64!"}, "encrypted-key-metadata: must be base64"),
        ({"key-id": "k"}, "object missing required field `encrypted-key-metadata`"),
    ],
)
def test_invalid_encryption_keys_are_rejected(key: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        commit(make_table(3), action("add-encryption-key", encryption_key=key))
    assert "not base64!" not in str(caught.value)


def test_encryption_keys_require_version_3() -> None:
    with pytest.raises(InvalidInput, match="encryption keys require format version 3"):
        commit(make_table(2), action("add-encryption-key", encryption_key=KEY))


def touch(base: TableMetadata, now_ms: int, location: str | None = None) -> TableMetadata:
    count = str(int(base.properties.get("touched", "0")) + 1)
    return commit(base, action("set-properties", updates={"touched": count}), now_ms=now_ms, previous_location=location)


def test_last_updated_is_the_clock_and_never_decreases() -> None:
    base = make_table()
    assert touch(base, NOW + 7).last_updated_ms == NOW + 7
    assert touch(base, NOW - 7).last_updated_ms == NOW


def test_last_updated_is_not_before_the_latest_snapshot() -> None:
    after = commit(make_table(), add_snapshot(1, 1, at=NOW + 100), set_ref(1), now_ms=NOW + 5)
    assert after.last_updated_ms == NOW + 100
    later = commit(make_table(), add_snapshot(1, 1, at=NOW + 1), set_ref(1), now_ms=NOW + 5)
    assert later.last_updated_ms == NOW + 5


def test_previous_metadata_file_is_logged_with_its_own_time() -> None:
    base = make_table()
    first = touch(base, NOW + 10, "s3://lake/0.json")
    second = touch(first, NOW + 20, "s3://lake/1.json")
    assert [(entry.metadata_file, entry.timestamp_ms) for entry in second.metadata_log] == [
        ("s3://lake/0.json", NOW),
        ("s3://lake/1.json", NOW + 10),
    ]
    assert touch(second, NOW + 30).metadata_log == second.metadata_log


@pytest.mark.parametrize(("setting", "kept"), [("0", 1), ("1", 1), ("3", 3), (None, 100)])
def test_metadata_log_is_trimmed(setting: str | None, kept: int) -> None:
    properties = {} if setting is None else {"write.metadata.previous-versions-max": setting}
    base = make_table(properties=properties)
    for number in range(kept + 2):
        base = touch(base, NOW, f"s3://lake/{number}.json")
    assert [entry.metadata_file for entry in base.metadata_log] == [
        f"s3://lake/{number}.json" for number in range(2, kept + 2)
    ]


def test_metadata_log_is_trimmed_by_a_property_of_the_same_commit() -> None:
    base = make_table()
    for number in range(5):
        base = touch(base, NOW, f"s3://lake/{number}.json")
    update = action("set-properties", updates={"write.metadata.previous-versions-max": "2"})
    after = commit(base, update, previous_location="s3://lake/5.json")
    assert [entry.metadata_file for entry in after.metadata_log] == ["s3://lake/4.json", "s3://lake/5.json"]


def test_invalid_stored_property_is_ignored() -> None:
    document = {**golden("v2"), "properties": {"write.metadata.previous-versions-max": "many"}}
    after = touch(parse_table(dump(document)), NOW, "s3://lake/x.json")
    assert len(after.metadata_log) == 2


def test_unknown_fields_survive_a_commit() -> None:
    base = parse_table((GOLDEN / "v3.json").read_bytes())
    text = serialize_table(commit(base, action("set-properties", updates={"a": "b"}), now_ms=base.last_updated_ms))
    expected = (GOLDEN / "v3.written.json").read_bytes().rstrip(b"\n")
    assert text == expected.replace(
        b'"properties":{"write.delete.mode":"merge-on-read"}',
        b'"properties":{"write.delete.mode":"merge-on-read","a":"b"}',
    )


def test_base_is_not_modified() -> None:
    base = parse_table((GOLDEN / "v2.json").read_bytes())
    before = serialize_table(base)
    commit(
        base,
        add_snapshot(7, 35, parent=base.current_snapshot_id),
        set_ref(7),
        action("remove-snapshots", snapshot_ids=[3051729675574597004]),
        action("set-properties", updates={"x": "y"}),
        action("add-schema", schema=COLUMNS),
    )
    assert serialize_table(base) == before


CREATE = [
    action("assign-uuid", uuid=UUID),
    action("upgrade-format-version", format_version=1),
    action("add-schema", schema=COLUMNS),
    action("set-current-schema", schema_id=-1),
    action("add-spec", spec={"spec-id": 0, "fields": [partition(2, "day", "d")]}),
    action("set-default-spec", spec_id=-1),
    action("add-sort-order", sort_order={"order-id": 1, "fields": [sort(1)]}),
    action("set-default-sort-order", sort_order_id=-1),
    action("set-location", location=LOCATION),
    action("set-properties", updates={"a": "b"}),
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_staged_table_is_created_by_its_updates(version: int) -> None:
    updates = [*CREATE[:1], action("upgrade-format-version", format_version=version), *CREATE[2:]]
    table = commit(None, *updates, previous_location="s3://lake/ignored.json")
    assert (table.format_version, table.uuid, table.location) == (version, UUID, LOCATION)
    assert (table.current_schema_id, table.default_spec_id, table.default_sort_order_id) == (0, 0, 1)
    assert (table.last_column_id, table.last_partition_id) == (6, 1000)
    assert (table.last_updated_ms, table.metadata_log, table.snapshot_log) == (NOW, (), ())
    assert parse_table(serialize_table(table)) == table


def test_staged_table_can_have_data() -> None:
    updates = [*CREATE[:1], action("upgrade-format-version", format_version=2), *CREATE[2:]]
    table = commit(None, *updates, add_snapshot(1, 1), set_ref(1))
    assert table.current_snapshot_id == 1


def test_new_table_defaults_to_version_2() -> None:
    assert commit(None, *CREATE[2:]).format_version == 2
    assert commit(None, *CREATE[2:]).uuid == OTHER_UUID


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (slice(2, 4), "a schema must be added and set as the current one first"),
        (slice(4, 6), "the table would have no partition spec"),
        (slice(6, 8), "the table would have no sort order"),
        (slice(8, 9), "the table would have no location"),
        (slice(0, 10), "the table would have no schema"),
    ],
)
def test_new_table_must_be_complete(missing: slice, message: str) -> None:
    updates = list(CREATE)
    del updates[missing]
    with pytest.raises(InvalidInput, match=message):
        commit(None, *updates)


def test_new_table_of_an_unknown_version_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="table format version must be 1, 2 or 3"):
        commit(None, *CREATE[2:], action("upgrade-format-version", format_version=4))


def test_snapshot_requires_schema_spec_and_order() -> None:
    with pytest.raises(InvalidInput, match="must be added before a snapshot"):
        commit(None, add_snapshot(1, 1), *CREATE)


def test_serialization_is_deterministic() -> None:
    texts = {serialize_table(commit(None, *CREATE)) for _ in range(3)}
    assert len(texts) == 1
    assert list(json.loads(texts.pop())) == [
        "format-version",
        "table-uuid",
        "location",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "current-schema-id",
        "schemas",
        "partition-spec",
        "default-spec-id",
        "partition-specs",
        "last-partition-id",
        "default-sort-order-id",
        "sort-orders",
        "properties",
        "current-snapshot-id",
        "refs",
        "snapshots",
        "statistics",
        "partition-statistics",
        "snapshot-log",
        "metadata-log",
    ]

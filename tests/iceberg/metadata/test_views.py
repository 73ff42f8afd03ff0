from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidViewVersion
from lakebed.iceberg.metadata import parse_view, serialize_view

from ..samples import (
    COLUMNS,
    LOCATION,
    NOW,
    OTHER_UUID,
    UUID,
    Json,
    action,
    column,
    commit_view,
    dump,
    make_view,
    sql,
    view_version,
    written_view,
)
from .test_parsing import GOLDEN, golden


def add_version(document: Json) -> Json:
    return action("add-view-version", view_version=document)


CURRENT = action("set-current-view-version", view_version_id=-1)


def test_golden_documents_are_unchanged() -> None:
    view = parse_view((GOLDEN / "view.json").read_bytes())
    text = serialize_view(view)
    assert text == (GOLDEN / "view.written.json").read_bytes().rstrip(b"\n")
    assert parse_view(text) == view
    assert json.loads(text) == golden("view")
    assert view.current_version.dialects == ["spark", "trino"]


def test_namespace_and_log_can_be_missing() -> None:
    document = golden("view")
    del document["version-log"], document["properties"], document["versions"][0]["default-namespace"]
    assert parse_view(dump(document)).version_log == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format-version": 2}, "format-version: must be 1. found=2"),
        ({"current-version-id": 9}, "current-version-id: unknown id. id=9"),
        ({"schemas": []}, r"versions\[0\].schema-id: unknown id. id=1"),
        ({"versions": []}, "current-version-id: unknown id"),
        ({"versions": [view_version(1, schema_id=1)] * 2}, "versions: version-id is repeated. version-id=1"),
        ({"versions": [view_version(2, {"type": "sql"}, schema_id=1)]}, "requires sql and dialect"),
        ({"versions": [view_version(2, sql(), sql("S", "SPARK"), schema_id=1)]}, "dialect is repeated. dialect=spark"),
        ({"view-uuid": None}, "view-uuid: expected `str`, got `null`"),
    ],
)
def test_invalid_documents_are_rejected(changes: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"view metadata: .*{message}"):
        parse_view(dump({**golden("view"), **changes}))


@given(st.binary())
def test_noise_is_rejected_and_never_crashes(noise: bytes) -> None:
    with suppress(InvalidInput):
        parse_view(noise)


def test_new_version_gets_the_next_id_and_becomes_current() -> None:
    base = make_view()
    after = commit_view(base, add_version(view_version(1, sql("SELECT 2"), at=NOW + 9)), CURRENT)
    assert list(after.versions) == [1, 2]
    assert after.current_version_id == 2
    assert written_view(after)["version-log"][-1] == {"timestamp-ms": NOW + 9, "version-id": 2}
    assert written_view(after)["versions"][1]["version-id"] == 2


def test_equal_version_is_reused() -> None:
    base = make_view()
    assert commit_view(base, add_version(view_version(5, at=NOW + 9)), CURRENT) is base
    second = commit_view(base, add_version(view_version(1, sql("SELECT 2"))), CURRENT)
    back = commit_view(second, add_version(view_version(7, at=NOW + 9)), CURRENT, now_ms=NOW + 50)
    assert list(back.versions) == [1, 2]
    assert [(entry.version_id, entry.timestamp_ms - NOW) for entry in back.version_log] == [(1, 0), (2, 0), (1, 50)]


def test_version_gets_the_schema_of_its_commit() -> None:
    wider = {**COLUMNS, "fields": [*COLUMNS["fields"], column(7, "x", "timestamp_ns")]}
    after = commit_view(
        make_view(), action("add-schema", schema=wider), add_version(view_version(2, schema_id=-1)), CURRENT
    )
    assert after.current_version.schema_id == 1
    assert written_view(after)["versions"][1]["schema-id"] == 1
    again = commit_view(
        after, action("add-schema", schema=COLUMNS), add_version(view_version(3, sql("S"), schema_id=-1)), CURRENT
    )
    assert again.current_version.schema_id == 0
    assert list(again.schemas) == [0, 1]


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([CURRENT], "the last added version cannot be set: this commit adds none"),
        ([action("set-current-view-version", view_version_id=9)], "there is no version of that id. id=9"),
        ([add_version(view_version(2, schema_id=9))], "there is no schema of that id. id=9"),
        ([add_version(view_version(2, schema_id=-1))], "the last added schema cannot be set"),
        ([add_version(view_version(2, sql(), sql("S", "SPARK")))], "Cannot add multiple queries for dialect spark"),
        ([add_version({})], "add-view-version: view-version: object missing required field"),
        ([action("upgrade-format-version", format_version=2)], "view format version must be 1. format_version=2"),
        ([action("assign-uuid", uuid=OTHER_UUID)], "the UUID of a view cannot change"),
        ([action("assign-uuid", uuid="x")], "not a UUID"),
        (
            [action("set-properties", updates={"version.history.num-entries": "0"})],
            "must be a whole number, at least 1",
        ),
    ],
)
def test_invalid_updates_are_rejected(updates: list[Json], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        commit_view(make_view(), *updates)


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [action("assign-uuid", uuid=UUID)],
        [action("upgrade-format-version", format_version=1)],
        [action("set-location", location=LOCATION + "/")],
        [action("set-properties", updates={})],
        [action("remove-properties", removals=["no"])],
        [action("add-schema", schema=COLUMNS)],
        [action("set-current-view-version", view_version_id=1)],
    ],
)
def test_updates_without_effect_return_the_same_object(updates: list[Json]) -> None:
    base = make_view()
    assert commit_view(base, *updates) is base


def test_location_and_properties_are_updated() -> None:
    after = commit_view(
        make_view(properties={"a": "1", "b": "2"}),
        action("set-location", location="s3://lake/other/"),
        action("set-properties", updates={"a": "3"}),
        action("remove-properties", removals=["b"]),
    )
    assert after.location == "s3://lake/other"
    assert dict(after.properties) == {"a": "3"}


def test_dropping_a_dialect_requires_the_property() -> None:
    base = make_view(sql(), sql(dialect="trino"))
    only_spark = add_version(view_version(2, sql("SELECT 2")))
    with pytest.raises(InvalidViewVersion, match=r"the view would lose SQL dialects.*lost=trino"):
        commit_view(base, only_spark, CURRENT)
    allowed = action("set-properties", updates={"replace.drop-dialect.allowed": "true"})
    assert commit_view(base, allowed, only_spark, CURRENT).current_version.dialects == ["spark"]


def test_old_versions_and_their_log_are_removed() -> None:
    base = make_view(properties={"version.history.num-entries": "2"})
    for number in range(2, 5):
        base = commit_view(base, add_version(view_version(number, sql(f"SELECT {number}"), at=NOW + number)), CURRENT)
    assert list(base.versions) == [3, 4]
    assert [entry.version_id for entry in base.version_log] == [3, 4]


def test_log_before_a_removed_version_is_truncated() -> None:
    base = make_view(properties={"version.history.num-entries": "2"})
    base = commit_view(base, add_version(view_version(2, sql("SELECT 2"))), CURRENT)
    base = commit_view(base, action("set-current-view-version", view_version_id=1))
    assert [entry.version_id for entry in base.version_log] == [1, 2, 1]
    base = commit_view(base, add_version(view_version(3, sql("SELECT 3"))), CURRENT)
    assert list(base.versions) == [2, 3]
    assert [entry.version_id for entry in base.version_log] == [3]


def test_all_versions_of_one_commit_and_the_current_one_are_kept() -> None:
    base = make_view(properties={"version.history.num-entries": "1"})
    versions = [add_version(view_version(number, sql(f"SELECT {number}"))) for number in range(2, 5)]
    after = commit_view(base, *versions, action("set-current-view-version", view_version_id=1))
    assert list(after.versions) == [1, 2, 3, 4]
    assert after.current_version_id == 1


def test_unknown_fields_survive_a_commit() -> None:
    base = parse_view((GOLDEN / "view.json").read_bytes())
    after = written_view(commit_view(base, action("set-properties", updates={"a": "b"})))
    assert after == {**golden("view"), "properties": {**golden("view")["properties"], "a": "b"}}


def test_new_view_must_be_complete() -> None:
    steps = [
        action("add-schema", schema=COLUMNS),
        add_version(view_version(1, schema_id=-1)),
        CURRENT,
        action("set-location", location=LOCATION),
    ]
    assert commit_view(None, *steps).uuid == OTHER_UUID
    assert commit_view(None, action("assign-uuid", uuid=UUID), *steps).uuid == UUID
    with pytest.raises(InvalidInput, match="the view would have no location"):
        commit_view(None, *steps[:3])
    with pytest.raises(InvalidInput, match="the view would have no version"):
        commit_view(None, steps[3])

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client import Event
from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.pipeline.datasource import LakebedSource, split
from lakebed.pipeline.datasource_rows import SCHEMAS, TABLES, arrow_schema, attempt_row, batch_of

KEYS = {"access-key-id": "KEY", "secret-access-key": "a-secret-of-a-test"}


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 20))
def test_partition_ranges_cover_the_requested_range(after: int, length: int, count: int) -> None:
    parts = split(after, after + length, count)
    assert [seq for part in parts for seq in range(part.after + 1, part.until + 1)] == list(
        range(after + 1, after + length + 1)
    )
    assert 1 <= len(parts) <= count


@pytest.mark.parametrize("table", TABLES)
def test_spark_and_arrow_schemas_have_the_same_columns(table: str) -> None:
    assert LakebedSource({"table": table}).schema() == SCHEMAS[table]
    names = [column.split()[0] for column in SCHEMAS[table].split(", ")]
    assert arrow_schema(table).names == names
    nothing = batch_of(table, [tuple(None for _ in names)])
    assert (nothing.num_rows, nothing.num_columns) == (1, len(names))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"table": "secrets"}, "table"),
        ({}, "table"),
        ({"table": "events", "partitions": "0"}, "partitions"),
        ({"table": "events", "after": "-1"}, "after"),
        ({"table": "events", "knids": "x"}, "knids"),
        ({"table": "attempts", "kinds": "User*"}, "kinds"),
    ],
)
def test_invalid_option_is_named(options: Mapping[str, str], word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        LakebedSource({**KEYS, **options}).reader(None)  # type: ignore[arg-type]  # unused


def test_missing_credentials_name_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEBED_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "LAKEBED_ROOT_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidSetting, match="AWS_ACCESS_KEY_ID"):
        LakebedSource({"table": "events"}).reader(None)  # type: ignore[arg-type]  # unused


@pytest.mark.parametrize("table", ["tasks", "health"])
def test_tables_without_log_cannot_be_streamed(table: str) -> None:
    with pytest.raises(InvalidInput, match="batch"):
        LakebedSource({**KEYS, "table": table}).streamReader(None)  # type: ignore[arg-type]  # unused


def test_checkpoint_of_another_deployment_is_rejected() -> None:
    streaming = LakebedSource({**KEYS, "table": "events"}).streamReader(None)  # type: ignore[arg-type]  # unused
    ours, theirs = {"seq": 9, "deployment": "ours"}, {"seq": 5, "deployment": "theirs"}
    with pytest.raises(InvalidInput, match=r"another deployment; .* expected=theirs found=ours"):
        streaming.partitions(theirs, ours)


def test_checkpoint_of_an_earlier_version_is_continued() -> None:
    streaming = LakebedSource({**KEYS, "table": "events"}).streamReader(None)  # type: ignore[arg-type]  # unused
    parts = streaming.partitions({"seq": 5}, {"seq": 9, "deployment": "ours"})
    assert [(part.after, part.until, part.deployment) for part in parts] == [  # type: ignore[attr-defined]
        (number, number + 1, "ours") for number in range(5, 9)
    ]


def test_attempt_becomes_a_row() -> None:
    event = Event(
        seq=7,
        kind="AttemptDenied",
        subject="lake/ns/t",
        occurred_ms=5,
        payload={
            "edge": "catalog",
            "route": "dropTable",
            "operation": "DROP_TABLE",
            "principal": "anna",
            "status": 403,
        },
    )
    row = dict(zip(arrow_schema("attempts").names, attempt_row(event), strict=True))
    assert (row["outcome"], row["operation"], row["subject"], row["principal"]) == (
        "denied",
        "DROP_TABLE",
        "lake/ns/t",
        "anna",
    )
    assert (row["occurred"], row["status"], row["count"], row["claimed"]) == (5000, 403, 1, None)
    assert batch_of("attempts", [attempt_row(event)]).num_rows == 1


def test_attempts_are_read_from_the_audit_log() -> None:
    request = LakebedSource({**KEYS, "table": "attempts", "principal": "anna"}).reader(None)._request  # type: ignore[arg-type,attr-defined]
    assert (request.kinds, request.principal) == (("Attempt*",), "anna")


def test_readers_can_be_pickled_without_secrets_in_repr() -> None:
    reader = LakebedSource({**KEYS, "table": "events"}).reader(None)  # type: ignore[arg-type]  # unused
    assert pickle.loads(pickle.dumps(reader))._request == reader._request  # type: ignore[attr-defined]
    assert "a-secret-of-a-test" not in repr(reader._request)  # type: ignore[attr-defined]

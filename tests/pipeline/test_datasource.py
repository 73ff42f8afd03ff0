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
def test_the_ranges_of_partitions_are_together_what_was_asked_for(after: int, length: int, count: int) -> None:
    parts = split(after, after + length, count)
    assert [seq for part in parts for seq in range(part.after + 1, part.until + 1)] == list(
        range(after + 1, after + length + 1)
    )
    assert 1 <= len(parts) <= count


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_same_columns_for_spark_and_for_arrow(table: str) -> None:
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
def test_a_wrong_option_is_named(options: Mapping[str, str], word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        LakebedSource({**KEYS, **options}).reader(None)  # type: ignore[arg-type]  # not looked at


def test_without_keys_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEBED_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "LAKEBED_ROOT_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidSetting, match="AWS_ACCESS_KEY_ID"):
        LakebedSource({"table": "events"}).reader(None)  # type: ignore[arg-type]  # not looked at


@pytest.mark.parametrize("table", ["tasks", "health"])
def test_what_is_no_log_cannot_be_streamed(table: str) -> None:
    with pytest.raises(InvalidInput, match="batch"):
        LakebedSource({**KEYS, "table": table}).streamReader(None)  # type: ignore[arg-type]  # not looked at


def test_a_checkpoint_of_another_deployment_is_refused() -> None:
    streaming = LakebedSource({**KEYS, "table": "events"}).streamReader(None)  # type: ignore[arg-type]  # not looked at
    ours, theirs = {"seq": 9, "deployment": "ours"}, {"seq": 5, "deployment": "theirs"}
    with pytest.raises(InvalidInput, match=r"another deployment; .* expected=theirs found=ours"):
        streaming.partitions(theirs, ours)


def test_a_checkpoint_of_an_earlier_version_is_gone_on_with() -> None:
    streaming = LakebedSource({**KEYS, "table": "events"}).streamReader(None)  # type: ignore[arg-type]  # not looked at
    parts = streaming.partitions({"seq": 5}, {"seq": 9, "deployment": "ours"})
    assert [(part.after, part.until, part.deployment) for part in parts] == [  # type: ignore[attr-defined]
        (number, number + 1, "ours") for number in range(5, 9)
    ]


def test_an_attempt_is_a_row_with_what_is_known_of_it() -> None:
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


def test_attempts_are_read_of_the_audit_trail() -> None:
    asked = LakebedSource({**KEYS, "table": "attempts", "principal": "anna"}).reader(None)._asked  # type: ignore[arg-type,attr-defined]
    assert (asked.kinds, asked.principal) == (("Attempt*",), "anna")


def test_readers_travel_to_executors() -> None:
    reader = LakebedSource({**KEYS, "table": "events"}).reader(None)  # type: ignore[arg-type]  # not looked at
    assert pickle.loads(pickle.dumps(reader))._asked == reader._asked  # type: ignore[attr-defined]
    assert "a-secret-of-a-test" not in repr(reader._asked)  # type: ignore[attr-defined]

from __future__ import annotations

from typing import ClassVar

import pytest

from lakebed.pipeline.jobs.verification import row_hash
from lakebed.pipeline.spark.procedures import Argument, TimestampArgument, literal
from lakebed.pipeline.table_ref import quoted_name
from tests.pipeline.bench import SPARK_MARKS, Bench


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (7, "7"),
        (2**40, f"{2**40}L"),
        ("it's", "'it\\'s'"),
        ({"a": "b"}, "map('a', 'b')"),
        (["a", "b"], "array('a', 'b')"),
        (TimestampArgument(1_700_000_000_123), "TIMESTAMP '2023-11-14 22:13:20.123 UTC'"),
    ],
)
def test_values_become_sql_literals(value: Argument, written: str) -> None:
    assert literal(value) == written


def test_names_are_quoted() -> None:
    assert quoted_name("a", "b`; DROP TABLE x", "c.d") == "`a`.`b``; DROP TABLE x`.`c.d`"


def test_row_hash_converts_unhashable_types_to_text() -> None:
    from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

    schema = StructType([StructField("id", LongType()), StructField("m", MapType(StringType(), StringType()))])
    assert row_hash(schema) == "xxhash64(`id`, to_json(struct(`m`)))"


class TestWithSpark:
    pytestmark: ClassVar = [*SPARK_MARKS, pytest.mark.heavy]

    @pytest.mark.parametrize(
        "text", ["it's", 'a "b"', "back\\slash\\", "\\'", "line\nbreak", "${env:HOME}", "ü€\U0001f600"]
    )
    def test_text_literals_round_trip_in_spark(self, bench: Bench, text: str) -> None:
        assert bench.value(f"SELECT {literal(text)}") == text

    def test_timestamp_literals_round_trip_in_spark(self, bench: Bench) -> None:
        assert bench.value(f"SELECT unix_millis({literal(TimestampArgument(1_700_000_000_123))})") == 1_700_000_000_123

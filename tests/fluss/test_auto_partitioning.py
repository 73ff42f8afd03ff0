from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.auto_partitioning import AutoPartitionStrategy, AutoPartitionTimeUnit
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

STRING, DATE = DataType(TypeRoot.STRING), DataType(TypeRoot.DATE)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"])


def definition(
    options: Mapping[str, str], keys: tuple[str, ...] = ("day",), type_: DataType = STRING
) -> tuple[Schema, tuple[str, ...], Mapping[str, str]]:
    properties = {f"table.auto-partition.{name.replace('_', '-')}": value for name, value in options.items()}
    schema = Schema.of([("day", type_), ("region", STRING), ("n", DataType(TypeRoot.INT))])
    return schema, keys, {"table.auto-partition.enabled": "true"} | properties


def strategy(**options: str) -> AutoPartitionStrategy:
    found = AutoPartitionStrategy.of(*definition(options))
    assert found is not None
    return found


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("unit", "due", "expired"),
    [
        ("HOUR", ["2024123123", "2025010100"], "2024123115"),
        ("DAY", ["20241231", "20250101"], "20241223"),
        ("MONTH", ["202412", "202501"], "202404"),
        ("QUARTER", ["20244", "20251"], "20224"),
        ("YEAR", ["2024", "2025"], "2016"),
    ],
)
def test_due_and_expired_names_per_unit(unit: str, due: list[str], expired: str) -> None:
    found, now_ms = strategy(time_unit=unit), ms("2024-12-31T23:30:00+00:00")
    assert found.due(now_ms) == due
    assert found.expired([expired, *due], now_ms) == [expired]


def test_retention_keeps_the_newest_partitions() -> None:
    found, now_ms = strategy(num_retention="2"), ms("2024-03-01T10:00:00+00:00")
    names = ["20240227", "20240228", "20240229", "20240301", "20240302", "19990101", "byhand", "2024"]
    assert found.expired(names, now_ms) == ["19990101", "20240227"]
    assert strategy(num_retention="0").expired(names, now_ms) == ["19990101", "20240227", "20240228", "20240229"]
    assert strategy(num_retention="-1").expired(names, now_ms) == []


def test_days_follow_the_time_zone() -> None:
    now_ms = ms("2024-06-30T20:00:00+00:00")
    assert strategy(time_zone="Asia/Tokyo").due(now_ms) == ["20240701", "20240702"]
    assert strategy(time_zone="America/New_York").due(now_ms) == ["20240630", "20240701"]


def test_custom_time_formats() -> None:
    now_ms = ms("2024-06-30T20:00:00+00:00")
    assert strategy(time_format="yyyy-MM-dd").due(now_ms)[0] == "2024-06-30"
    assert strategy(time_unit="HOUR", time_format="yyyy_MM_dd-HH").due(now_ms)[0] == "2024_06_30-20"
    by_date = AutoPartitionStrategy.of(*definition({}, type_=DATE))
    assert by_date is not None
    assert by_date.due(now_ms)[0] == "2024-06-30"


@pytest.mark.parametrize(
    "bad",
    [
        {"time_format": "ddMMyyyy"},
        {"time_format": "yyMMdd"},
        {"time_format": "yyyyMM"},
        {"time_format": "yyyy/MM/dd"},
        {"time_format": "yyyyMMddHH"},
        {"time_zone": "Nowhere/Land"},
        {"time_zone": "../../etc/passwd"},
        {"key": "n"},
    ],
)
def test_invalid_options_are_rejected(bad: dict[str, str]) -> None:
    with pytest.raises(FlussError) as caught:
        AutoPartitionStrategy.of(*definition(bad))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_several_partition_keys_require_a_time_key() -> None:
    keys = ("day", "region")
    with pytest.raises(FlussError):
        AutoPartitionStrategy.of(*definition({}, keys))
    with pytest.raises(FlussError):
        AutoPartitionStrategy.of(*definition({"key": "day", "num_precreate": "1"}, keys))
    found = AutoPartitionStrategy.of(*definition({"key": "day"}, keys))
    assert found is not None
    assert found.due(0) == []


def test_date_columns_support_days_only() -> None:
    for bad in ({"time_unit": "MONTH"}, {"time_format": "yyyyMMdd"}):
        with pytest.raises(FlussError):
            AutoPartitionStrategy.of(*definition(bad, type_=DATE))
    with pytest.raises(FlussError):
        AutoPartitionStrategy.of(*definition({}, type_=DataType(TypeRoot.INT)))


def test_table_without_auto_partitioning_has_no_strategy() -> None:
    assert AutoPartitionStrategy.of(definition({})[0], ("day",), {}) is None


@given(moments, st.sampled_from(list(AutoPartitionTimeUnit)), zones, st.integers(0, 5), st.integers(0, 9))
def test_due_partitions_are_never_expired(
    moment: datetime, unit: AutoPartitionTimeUnit, zone: str, ahead: int, kept: int
) -> None:
    found = strategy(time_unit=unit, time_zone=zone, num_precreate=str(ahead), num_retention=str(kept))
    now_ms = int(moment.timestamp() * 1000)
    due = found.due(now_ms)
    assert len(due) == len(set(due)) == ahead
    assert due == sorted(due)
    assert not ahead or due[0] == found.name(moment)
    assert found.expired(due, now_ms) == []


@given(moments, st.sampled_from(list(AutoPartitionTimeUnit)), zones)
def test_partition_names_sort_by_time(moment: datetime, unit: AutoPartitionTimeUnit, zone: str) -> None:
    found = strategy(time_unit=unit, time_zone=zone)
    names = [found.name(moment + timedelta(days=days)) for days in (-400, -40, -2, 0, 2, 40, 400)]
    assert names == sorted(names)


@given(moments, zones)
def test_retention_counts_calendar_days(moment: datetime, zone: str) -> None:
    found = strategy(time_zone=zone, num_retention="7")
    today = moment.astimezone(ZoneInfo(zone)).date()
    days = [f"{today - timedelta(days=back):%Y%m%d}" for back in range(12)]
    assert found.expired(days, int(moment.timestamp() * 1000)) == sorted(days[8:])

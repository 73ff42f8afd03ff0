"""Validation of table options; unsupported options are rejected."""

from __future__ import annotations

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import byte_count, check_options


@pytest.mark.parametrize("name", ["table.kv.standby-replica.enabled", "table.datalake.historical-partition.enabled"])
def test_unsupported_options_can_only_be_false(name: str) -> None:
    check_options({name: "false"})
    with pytest.raises(FlussError, match=f"{name}: not supported: ") as refused:
        check_options({name: "true"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("log_format", ["INDEXED", "compacted"])
def test_lake_tiering_requires_the_arrow_log_format(log_format: str) -> None:
    check_options({"table.log.format": log_format})
    check_options({"table.log.format": "arrow", "table.datalake.enabled": "true"})
    with pytest.raises(FlussError, match="requires the Arrow log format") as refused:
        check_options({"table.log.format": log_format, "table.datalake.enabled": "true"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("12b", 12), (" 3 KB ", 3 << 10), ("512m", 512 << 20), ("10gb", 10 << 30), ("2 t", 2 << 40)],
)
def test_sizes_are_parsed(text: str, expected: int) -> None:
    assert byte_count(text) == expected

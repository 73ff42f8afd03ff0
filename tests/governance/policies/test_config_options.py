from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.governance.policies.config_options import (
    DATA_COMPACTION,
    DURATION,
    FLAG,
    METADATA_COMPACTION,
    NAMES,
    ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY,
    TEXT,
    ConfigOption,
    ValueParser,
    choice,
    number,
    whole,
)

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers())


@pytest.mark.parametrize(
    ("parser", "value", "read"),
    [
        (whole(1), 5, 5),
        (whole(1), "5", 5),
        (whole(1), " 5 ", 5),
        (whole(1), 1e6, 1_000_000),
        (whole(1), 0, None),
        (whole(1), "-3", None),
        (whole(1), 1.5, None),
        (whole(1), True, None),
        (whole(1), "0x10", None),
        (whole(1), "٣", None),
        (whole(1), 2**63, None),
        (whole(0), 2**63 - 1, 2**63 - 1),
        (number(0, 1), 0.5, 0.5),
        (number(0, 1), "0.25", 0.25),
        (number(0, 1), 1, 1.0),
        (number(0, 1), 1.5, None),
        (number(0, 1), True, None),
        (number(), float("inf"), None),
        (number(), "1e3", None),
        (FLAG, True, True),
        (FLAG, "False", False),
        (FLAG, 1, None),
        (FLAG, "yes", None),
        (TEXT, "a", "a"),
        (TEXT, " ", None),
        (TEXT, 1, None),
        (NAMES, ["a", " b "], ("a", "b")),
        (NAMES, "a, b", ("a", "b")),
        (NAMES, [], None),
        (NAMES, ["a", 1], None),
        (NAMES, "a,,b", None),
        (DURATION, 90, 90.0),
        (DURATION, "1h30m", 5400.0),
        (DURATION, "soon", None),
        (DURATION, -1, None),
        (choice("binpack", "zorder"), "binpack", "binpack"),
        (choice("binpack", "zorder"), "Bin-Pack", "binpack"),
        (choice("binpack", "zorder"), "Z_ORDER", "zorder"),
        (choice("binpack", "zorder"), "best", None),
        (choice("binpack", "zorder"), 1, None),
    ],
)
def test_values_are_parsed(parser: ValueParser, value: object, read: object) -> None:
    found = parser.read(value)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize("parser", [whole(), number(), FLAG, TEXT, NAMES, DURATION, choice("a")])
@given(value=VALUES)
def test_any_value_is_parsed_or_refused(parser: ValueParser, value: object) -> None:
    parser.read(value)


def test_aliases_set_job_options() -> None:
    meanings = {
        name: options[name].canonical_name
        for options, name in (
            (DATA_COMPACTION, "target_file_size_bytes"),
            (DATA_COMPACTION, "compaction_strategy"),
            (DATA_COMPACTION, "max-concurrent-file-group-rewrites"),
            (METADATA_COMPACTION, "spec_id"),
            (SNAPSHOT_EXPIRY, "min_snapshot_to_keep"),
            (SNAPSHOT_EXPIRY, "max_snapshot_age_days"),
            (SNAPSHOT_EXPIRY, "max_ref_age_days"),
            (ORPHAN_FILE_REMOVAL, "prefix_mismatch_mode"),
        )
    }
    assert meanings == {
        "target_file_size_bytes": "target-file-size-bytes",
        "compaction_strategy": "strategy",
        "max-concurrent-file-group-rewrites": "max-concurrent-file-group-rewrites",
        "spec_id": "spec-id",
        "min_snapshot_to_keep": "min-snapshots-to-keep",
        "max_snapshot_age_days": "max-snapshot-age-ms",
        "max_ref_age_days": "max-ref-age-ms",
        "prefix_mismatch_mode": "prefix-mismatch-mode",
    }


@pytest.mark.parametrize("options", [DATA_COMPACTION, METADATA_COMPACTION, SNAPSHOT_EXPIRY, ORPHAN_FILE_REMOVAL])
def test_every_canonical_name_is_an_option(options: Mapping[str, ConfigOption]) -> None:
    assert {option.canonical_name for option in options.values()} <= options.keys()

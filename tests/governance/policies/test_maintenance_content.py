from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.maintenance_content import (
    CONFIG_OPTIONS,
    DATA_COMPACTION,
    METADATA_COMPACTION,
    ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY,
    MaintenanceContent,
    parse_maintenance_content,
)

TYPES = list(CONFIG_OPTIONS)
DAY_MS = 86_400_000


def read(policy_type: str, document: object) -> MaintenanceContent:
    return parse_maintenance_content(policy_type, json.dumps(document))


@pytest.mark.parametrize("policy_type", TYPES)
@pytest.mark.parametrize(
    "document",
    [
        {"enable": True},
        {"enable": True, "version": "2025-02-03"},
        {"enable": True, "version": ""},
        {"enable": True, "version": None, "config": None},
        {"enable": True, "config": {}},
    ],
)
def test_common_content_of_all_types(policy_type: str, document: object) -> None:
    assert read(policy_type, document) == MaintenanceContent(enable=True)


def test_disabled_policy_is_valid() -> None:
    assert read(DATA_COMPACTION, {"enable": False}).enable is False


@pytest.mark.parametrize(
    ("policy_type", "document", "path"),
    [
        (DATA_COMPACTION, [], "$"),
        (DATA_COMPACTION, "text", "$"),
        (DATA_COMPACTION, {}, "$.enable"),
        (DATA_COMPACTION, {"enable": None}, "$.enable"),
        (DATA_COMPACTION, {"enable": "true"}, "$.enable"),
        (DATA_COMPACTION, {"enable": 1}, "$.enable"),
        (DATA_COMPACTION, {"enable": True, "version": "2024-01-01"}, "$.version"),
        (DATA_COMPACTION, {"enable": True, "version": False}, "$.version"),
        (DATA_COMPACTION, {"enable": True, "more": 1}, "$.more"),
        (DATA_COMPACTION, {"enable": True, "locations": []}, "$.locations"),
        (DATA_COMPACTION, {"enable": True, "config": []}, "$.config"),
        (DATA_COMPACTION, {"enable": True, "config": {"x": None}}, "$.config.x"),
        (DATA_COMPACTION, {"enable": True, "config": {"x y": {}}}, "$.config['x y']"),
        (
            DATA_COMPACTION,
            {"enable": True, "config": {"target_file_size_bytes": "big"}},
            "$.config.target_file_size_bytes",
        ),
        (DATA_COMPACTION, {"enable": True, "config": {"min-input-files": 0}}, "$.config['min-input-files']"),
        (DATA_COMPACTION, {"enable": True, "config": {"compaction_strategy": "best"}}, "$.config.compaction_strategy"),
        (DATA_COMPACTION, {"enable": True, "config": {"strategy": "zorder"}}, "$.config.strategy"),
        (METADATA_COMPACTION, {"enable": True, "config": {"spec_id": -1}}, "$.config.spec_id"),
        (
            SNAPSHOT_EXPIRY,
            {"enable": True, "config": {"min_snapshot_to_keep": "0"}},
            "$.config.min_snapshot_to_keep",
        ),
        (ORPHAN_FILE_REMOVAL, {"enable": True, "max_orphan_file_age_in_days": -1}, "$.max_orphan_file_age_in_days"),
        (ORPHAN_FILE_REMOVAL, {"enable": True, "max_orphan_file_age_in_days": 1.5}, "$.max_orphan_file_age_in_days"),
        (ORPHAN_FILE_REMOVAL, {"enable": True, "locations": "s3://lake/"}, "$.locations"),
        (ORPHAN_FILE_REMOVAL, {"enable": True, "locations": ["s3://lake/", 5]}, "$.locations[1]"),
        (ORPHAN_FILE_REMOVAL, {"enable": True, "config": {"older-than-ms": DAY_MS - 1}}, "$.config['older-than-ms']"),
        (
            ORPHAN_FILE_REMOVAL,
            {"enable": True, "config": {"prefix_mismatch_mode": "guess"}},
            "$.config.prefix_mismatch_mode",
        ),
    ],
)
def test_errors_have_a_json_path(policy_type: str, document: object, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read(policy_type, document)
    assert refused.value.argument == path
    assert str(refused.value).startswith(f"{path}: ")


def test_known_options_are_parsed() -> None:
    config = {
        "target_file_size_bytes": "134217728",
        "compaction_strategy": "bin-pack",
        "max-concurrent-file-group-rewrites": "5",
        "partial-progress": "true",
        "delete-ratio-threshold": 0.2,
        "zorder-columns": ["a", "b"],
        "interval": "2h",
    }
    assert read(DATA_COMPACTION, {"enable": True, "config": config}).config == {
        "target_file_size_bytes": 134_217_728,
        "compaction_strategy": "binpack",
        "max-concurrent-file-group-rewrites": 5,
        "partial-progress": True,
        "delete-ratio-threshold": 0.2,
        "zorder-columns": ("a", "b"),
        "interval": 7200.0,
    }


def test_unknown_options_are_kept_and_listed() -> None:
    content = read(SNAPSHOT_EXPIRY, {"enable": True, "config": {"my.own": "5", "other": 1.5, "flag": False}})
    assert content.config == {"my.own": "5", "other": 1.5, "flag": False}
    assert content.unknown == {"my.own", "other", "flag"}
    # An option of another type is unknown here.
    assert read(METADATA_COMPACTION, {"enable": True, "config": {"strategy": "sort"}}).unknown == {"strategy"}


def test_orphan_file_removal_has_age_and_locations() -> None:
    content = read(
        ORPHAN_FILE_REMOVAL,
        {"enable": True, "max_orphan_file_age_in_days": 30, "locations": ["s3://lake/a/"], "config": {}},
    )
    assert (content.max_orphan_file_age_days, content.locations) == (30, ("s3://lake/a/",))
    young = {"enable": True, "config": {"older-than-ms": 60_000, "allow-young": True}}
    assert read(ORPHAN_FILE_REMOVAL, young).config["older-than-ms"] == 60_000


@pytest.mark.parametrize(
    ("policy_type", "document"),
    [
        (DATA_COMPACTION, {"config": {"target_file_size_bytes": 1, "target-file-size-bytes": 2}}),
        (DATA_COMPACTION, {"config": {"strategy": "sort", "compaction_strategy": "binpack"}}),
        (SNAPSHOT_EXPIRY, {"config": {"max_snapshot_age_days": 1, "max-snapshot-age-ms": 2}}),
        (SNAPSHOT_EXPIRY, {"config": {"retain-last": 1, "min-snapshots-to-keep": 1}}),
        (ORPHAN_FILE_REMOVAL, {"max_orphan_file_age_in_days": 3, "config": {"older-than-ms": 3 * DAY_MS}}),
        (ORPHAN_FILE_REMOVAL, {"locations": ["a"], "config": {"locations": "b"}}),
        (DATA_COMPACTION, {"config": {"min-file-size-bytes": 10, "target-file-size-bytes": 10}}),
        (DATA_COMPACTION, {"config": {"target_file_size_bytes": 10, "max-file-size-bytes": 9}}),
        (DATA_COMPACTION, {"config": {"min-file-size-bytes": 10, "max-file-size-bytes": 9}}),
    ],
)
def test_contradictory_options_are_refused(policy_type: str, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read(policy_type, {"enable": True, **document})
    assert refused.value.argument is not None
    assert refused.value.argument.startswith("$.config")


NAMES = sorted({name for options in CONFIG_OPTIONS.values() for name in options} | {"", "x", "a b"})
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.text(max_size=3))
CONTENTS = st.fixed_dictionaries(
    {},
    optional={
        "enable": VALUES,
        "version": VALUES,
        "config": VALUES | st.dictionaries(st.sampled_from(NAMES), VALUES),
        "locations": VALUES,
        "max_orphan_file_age_in_days": VALUES,
    },
)


@given(policy_type=st.sampled_from(TYPES), document=CONTENTS)
def test_any_content_is_parsed_or_refused_with_a_path(policy_type: str, document: dict[str, Any]) -> None:
    content = None
    with contextlib.suppress(InvalidPolicy):
        content = read(policy_type, document)
    if content is None:
        with pytest.raises(InvalidPolicy, match=r"^\$"):
            read(policy_type, document)
    else:
        assert content.enable is document["enable"]
        assert content.unknown == content.config.keys() - CONFIG_OPTIONS[policy_type].keys()


@given(st.sampled_from(TYPES), st.text())
def test_any_text_is_parsed_or_refused(policy_type: str, text: str) -> None:
    with contextlib.suppress(InvalidPolicy):
        parse_maintenance_content(policy_type, text)

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.rules.job_options import JOB_OPTIONS, check_options
from lakebed.catalog.maintenance.rules.policy_rules import INTERVALS_MS, PolicySettings, read_policy
from lakebed.core.jobs import JobKind, encode_spec
from lakebed.core.jobs import TaskSpec as Order
from tests.catalog.maintenance.subjects import COMPACTION, DAY_MS, EXPIRY, MANIFESTS, ORPHANS

TYPES = (COMPACTION, MANIFESTS, ORPHANS, EXPIRY)


def reading(kind: str, config: dict[str, Any] | None = None, *, enable: bool = True, **rest: Any) -> PolicySettings:
    parameters = rest.pop("parameters", {})
    found = read_policy(kind, json.dumps({"enable": enable, "config": config or {}, **rest}), parameters)
    assert found is not None
    assert not found.fault
    return found


def options(kind: str, config: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    (first, *_) = reading(kind, config, **rest).instructions
    return dict(first.options)


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        (COMPACTION, {"target_file_size_bytes": "134217728"}, {"target-file-size-bytes": 134217728}),
        (COMPACTION, {"compaction_strategy": "bin-pack"}, {"strategy": "binpack"}),
        (
            COMPACTION,
            {"strategy": "zorder", "zorder-columns": "a, b"},
            {"strategy": "zorder", "zorder-columns": ["a", "b"]},
        ),
        (COMPACTION, {"max-concurrent-file-group-rewrites": 4.0}, {"max-concurrent-file-group-rewrites": 4}),
        (COMPACTION, {"delete-ratio-threshold": "0.3"}, {"delete-ratio-threshold": 0.3}),
        (COMPACTION, {"rewrite-deletes": "true"}, {"rewrite-deletes": True}),
        (MANIFESTS, {"spec_id": "2"}, {"spec-id": 2}),
        (EXPIRY, {"min_snapshot_to_keep": 3}, {"min-snapshots-to-keep": 3}),
        (EXPIRY, {"retain-last": 4}, {"min-snapshots-to-keep": 4}),
        (EXPIRY, {"max_snapshot_age_days": 7}, {"max-snapshot-age-ms": 7 * DAY_MS}),
        (EXPIRY, {"max_snapshot_age_days": "0.5"}, {"max-snapshot-age-ms": DAY_MS // 2}),
        (EXPIRY, {"max_ref_age_days": 30}, {"max-ref-age-ms": 30 * DAY_MS}),
        (ORPHANS, {"prefix_mismatch_mode": "IGNORE"}, {"prefix-mismatch-mode": "ignore"}),
    ],
)
def test_published_and_own_keys_are_equivalent(kind: str, config: dict[str, Any], expected: dict[str, Any]) -> None:
    assert options(kind, config) == expected
    assert reading(kind, config).ignored == ()


def test_orphan_policies_set_age_and_locations() -> None:
    assert options(ORPHANS, max_orphan_file_age_in_days=5, locations=["s3://lake/a", "s3://lake/b"]) == {
        "older-than-ms": 5 * DAY_MS,
        "locations": ["s3://lake/a", "s3://lake/b"],
    }


def test_young_orphans_are_kept_unless_allow_young_is_set() -> None:
    found = reading(ORPHANS, max_orphan_file_age_in_days=0)
    assert found.instructions[0].options["older-than-ms"] == DAY_MS
    assert found.ignored == ("an age of orphans below 24 hours (allow-young is not set)",)
    assert options(ORPHANS, {"older-than-ms": 0, "allow-young": True}) == {"older-than-ms": 0, "allow-young": True}


def test_each_policy_type_requires_its_jobs() -> None:
    jobs = {kind: [one.job for one in reading(kind).instructions] for kind in TYPES}
    assert jobs == {
        COMPACTION: [JobKind.COMPACT],
        MANIFESTS: [JobKind.REWRITE_MANIFESTS],
        ORPHANS: [JobKind.REMOVE_ORPHANS],
        EXPIRY: [JobKind.EXPIRE_SNAPSHOTS],
    }
    found = reading(COMPACTION, {"statistics": True, "statistics-columns": "id", "layout": True})
    assert [(one.job, dict(one.options)) for one in found.instructions] == [
        (JobKind.COMPACT, {}),
        (JobKind.COMPUTE_STATISTICS, {"columns": ["id"]}),
        (JobKind.REWRITE_LAYOUT, {}),
    ]
    assert found.ignored == ()


def test_unknown_keys_are_reported_as_ignored() -> None:
    assert reading(COMPACTION, {"colour": "red", "shape": 1, "min-input-files": 2}).ignored == ("colour", "shape")


def test_attachment_parameters_override_the_config() -> None:
    given_there = {"min-input-files": "9", "colour": "red", "target_file_size_bytes": "large"}
    found = reading(COMPACTION, {"min-input-files": 2, "strategy": "sort"}, parameters=given_there)
    assert dict(found.instructions[0].options) == {"min-input-files": 9, "strategy": "sort"}
    assert found.ignored == (
        "colour (a parameter)",
        "target_file_size_bytes (a parameter; it must be a whole number from 1)",
    )


def test_disabled_policy_is_reported() -> None:
    assert not reading(COMPACTION, enable=False).enabled
    assert reading(COMPACTION).enabled


def test_user_defined_types_require_no_jobs() -> None:
    assert read_policy("user.note", "{}", {}) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"enable": "yes"}'])
def test_invalid_content_requires_no_jobs_and_has_a_reason(content: str) -> None:
    found = read_policy(COMPACTION, content, {})
    assert found is not None
    assert (found.enabled, found.instructions) == (False, ())
    assert found.fault


def test_intervals_default_to_those_of_the_job() -> None:
    assert reading(COMPACTION).instructions[0].interval_ms == INTERVALS_MS[JobKind.COMPACT]
    for kind in TYPES:
        assert reading(kind, {"interval": "2h"}).instructions[0].interval_ms == 7_200_000
        assert reading(kind, {"interval": 0}).instructions[0].interval_ms == 0


@given(
    st.sampled_from(TYPES),
    st.dictionaries(
        st.sampled_from(
            [
                *(name for options in JOB_OPTIONS.values() for name in options),
                "max_snapshot_age_days",
                "max_ref_age_days",
                "interval",
                "colour",
            ]
        ),
        st.one_of(st.text(max_size=8), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()),
        max_size=4,
    ),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=2),
)
def test_instructions_have_valid_encodable_options(
    kind: str, config: dict[str, Any], parameters: dict[str, str]
) -> None:
    found = read_policy(kind, json.dumps({"enable": True, "config": config}), parameters)
    assert found is not None
    for one in found.instructions:
        assert check_options(one.job, one.options) == dict(one.options)
        assert encode_spec(Order(job=one.job, options=dict(one.options)))
        assert 0 <= one.interval_ms < 2**62

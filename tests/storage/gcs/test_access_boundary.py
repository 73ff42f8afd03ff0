"""Credential access boundaries, with their conditions evaluated by an implementation of CEL."""

from __future__ import annotations

import json
import re

import cel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, TooLarge
from lakebed.storage.gcs.access_boundary import (
    MAX_RULES,
    GcsScope,
    access_boundary,
    cel_literal,
    list_condition,
    object_condition,
)

READ = ["inRole:roles/storage.legacyObjectReader", "inRole:roles/storage.objectViewer"]
WRITE = ["inRole:roles/storage.legacyBucketWriter"]

hostile = st.text(st.sampled_from("t1/'\"\\`|)(,.\n\r\t\x00\x7fé😀\u2028 ") | st.characters(exclude_categories=["Cs"]))


def permits(condition: str, name: str) -> bool:
    """Whether the condition holds for an object of this resource name."""
    return bool(cel.evaluate(condition, {"resource": {"name": name}}))


@given(text=hostile)
@example(text="') || true || ('")
@example(text="\\")
@example(text="\\'")
def test_literal_evaluates_to_its_text(text: str) -> None:
    assert cel.evaluate(cel_literal(text), {}) == text


@given(text=hostile)
def test_literal_is_one_token_of_printable_ascii(text: str) -> None:
    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", cel_literal(text))
    assert cel_literal(text).isprintable()
    assert cel_literal(text).isascii()


@given(prefix=hostile, name=hostile)
@example(prefix="x') || true || ('", name="other")
@example(prefix="t1", name="t10/metadata.json")
def test_condition_permits_exactly_the_objects_under_the_prefix(prefix: str, name: str) -> None:
    condition = object_condition("bucket", prefix + "/")
    for key in (name, prefix + name, f"{prefix}/{name}"):
        assert permits(condition, f"projects/_/buckets/bucket/objects/{key}") is key.startswith(prefix + "/")
    assert not permits(condition, f"projects/_/buckets/other/objects/{prefix}/{name}")


@given(prefix=hostile, listed=hostile)
@example(prefix="') || true || ('", listed="other/")
@example(prefix="t1", listed="t10/")
@example(prefix="t1", listed="")
def test_list_condition_permits_exactly_listings_under_the_prefix(prefix: str, listed: str) -> None:
    attribute = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    condition = list_condition(prefix + "/")
    assert condition.startswith(attribute)
    for found in (listed, prefix, f"{prefix}/{listed}"):
        permitted = cel.evaluate("listed" + condition.removeprefix(attribute), {"listed": found})
        assert permitted is found.startswith(prefix + "/")


def test_reading_scope_has_one_rule_for_reading() -> None:
    document = access_boundary([GcsScope("lake", "db/t1/", write=False)])
    assert document == {
        "accessBoundary": {
            "accessBoundaryRules": [
                {
                    "availableResource": "//storage.googleapis.com/projects/_/buckets/lake",
                    "availablePermissions": READ,
                    "availabilityCondition": {
                        "expression": (
                            "resource.name.startsWith('projects/_/buckets/lake/objects/db/t1/') || "
                            "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('db/t1/')"
                        )
                    },
                }
            ]
        }
    }


def test_writing_scope_adds_a_rule_without_the_list_condition() -> None:
    scopes = [GcsScope("lake", "t1/", write=True), GcsScope("lake", "t2/", write=False)]
    read, write = access_boundary(scopes)["accessBoundary"]["accessBoundaryRules"]
    assert read["availablePermissions"] == READ
    assert write["availablePermissions"] == WRITE
    assert write["availabilityCondition"]["expression"] == object_condition("lake", "t1/")
    for prefix in ("t1/", "t2/"):
        assert object_condition("lake", prefix) in read["availabilityCondition"]["expression"]
        assert list_condition(prefix) in read["availabilityCondition"]["expression"]


def test_buckets_have_rules_of_their_own() -> None:
    scopes = [GcsScope("one", "a/", write=False), GcsScope("two", "b/", write=True)]
    rules = access_boundary(scopes)["accessBoundary"]["accessBoundaryRules"]
    assert [rule["availableResource"].rpartition("/")[2] for rule in rules] == ["one", "two", "two"]
    assert "'b/'" not in json.dumps(rules[0])
    assert "'a/'" not in json.dumps(rules[1:])


def test_boundary_without_scopes_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        access_boundary([])


def test_more_rules_than_google_permits_are_rejected() -> None:
    scopes = [GcsScope(f"bucket-{number}", "a/", write=False) for number in range(MAX_RULES + 1)]
    assert len(access_boundary(scopes[:-1])["accessBoundary"]["accessBoundaryRules"]) == MAX_RULES
    with pytest.raises(TooLarge):
        access_boundary(scopes)


@pytest.mark.parametrize("prefix", ["", "t1", "/", "/t1/", "a/../b/", "t1//"])
def test_prefix_must_be_a_key_and_a_slash(prefix: str) -> None:
    with pytest.raises(InvalidInput):
        GcsScope("lake", prefix, write=False)


@pytest.mark.parametrize("bucket", ["", "it's", "a/b", "a') || ('", "lake\n"])
def test_bucket_must_have_a_valid_name(bucket: str) -> None:
    with pytest.raises(InvalidInput):
        GcsScope(bucket, "t1/", write=False)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.names import (
    ON_DEMAND,
    SINGLES,
    EventName,
    mask_of,
    name_of_kind,
    parse_name,
)

N = EventName
WILDCARDS = [name for name in EventName if name.is_wildcard and name is not N.EVERYTHING]


def test_single_events_and_their_bits_are_stable() -> None:
    """Masks are stored."""
    assert len(SINGLES) == 37
    assert [name.mask for name in SINGLES] == [1 << place for place in range(37)]
    assert (N.OBJECT_CREATED_PUT.ordinal, N.OBJECT_CREATED_PUT.mask) == (9, 0x100)
    assert (N.INTELLIGENT_TIERING.ordinal, N.ABORT_MULTIPART_UPLOAD.ordinal) == (37, 48)
    assert (N.KMS_KEY_CREATED.ordinal, N.KMS_SERVICE_STOPPED.ordinal) == (51, 61)


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("s3:ObjectAccessed:*", 0x1F),
        ("s3:ObjectCreated:*", 0x1E0),
        ("s3:ObjectRemoved:*", 0x16000),
        ("s3:Replication:*", 0xF80000),
        ("s3:ObjectRestore:*", 0x3000000),
        ("s3:ObjectTagging:*", 0x1800),
        ("s3:LifecycleExpiration:*", 0x600000000),
        ("s3:ObjectTransition:*", 0x80C000000),
        ("s3:Scanner:*", 0x70000000),
    ],
)
def test_wildcards_have_the_members_of_s3(text: str, mask: int) -> None:
    assert parse_name(text).mask == mask
    assert mask_of(parse_name(text).singles) == mask


def test_everything_has_all_single_events_and_cannot_be_parsed() -> None:
    assert N.EVERYTHING.mask == 0x1FFFFFFFFF
    with pytest.raises(InvalidInput):
        parse_name("")


@given(st.sampled_from([*SINGLES, *WILDCARDS]))
def test_name_round_trips(name: EventName) -> None:
    assert parse_name(name.value) is name
    assert all(single in SINGLES for single in name.singles)


@given(st.text(max_size=40))
def test_unknown_name_is_rejected(text: str) -> None:
    if text not in {name.value for name in EventName}:
        with pytest.raises(InvalidInput, match="not supported"):
            parse_name(text)


def test_names_are_exact() -> None:
    for text in ("s3:objectcreated:put", "ObjectCreated:Put", " s3:ObjectCreated:Put", "s3:ObjectCreated", "s3:*"):
        with pytest.raises(InvalidInput):
            parse_name(text)


def test_deprecated_tagging_names_are_parsed_as_the_current_ones() -> None:
    assert parse_name("s3:ObjectCreated:PutTagging").value == "s3:ObjectTagging:Put"
    assert parse_name("s3:ObjectCreated:DeleteTagging").value == "s3:ObjectTagging:Delete"


def test_internal_and_audit_names_are_rejected() -> None:
    for internal in (N.ABORT_MULTIPART_UPLOAD, N.CREATE_MULTIPART_UPLOAD, N.DELETE_OBJECTS):
        with pytest.raises(InvalidInput):
            parse_name(internal.value)
    with pytest.raises(InvalidInput):
        parse_name("kms:Key:Rotated")
    stars = mask_of(WILDCARDS) | N.EVERYTHING.mask
    assert not any(name.mask & stars for name in EventName if name.ordinal >= 48)


def test_schema_versions() -> None:
    found = {
        version: {name.ordinal for name in SINGLES if name.version == version} for version in ("2.1", "2.2", "2.3")
    }
    assert found["2.2"] == {20, 21, 22, 23, 24}
    assert found["2.3"] == {12, 13, 26, 33, 34, 35, 36, 37}
    assert sum(map(len, found.values())) == 37


@given(st.sampled_from(SINGLES))
def test_outbox_kind_is_the_name_without_prefix_and_wildcard(name: EventName) -> None:
    assert name_of_kind(name.kind) is name
    assert name.value in (f"s3:{name.kind}", f"s3:{name.kind}:*")


def test_other_kinds_have_no_s3_name() -> None:
    for kind in ("TableCommitted", "BucketConfigured", "ObjectCreated", "ObjectCreated:*", "", "kms:Key:Created"):
        assert name_of_kind(kind) is None


def test_on_demand_events() -> None:
    assert {name.kind for name in SINGLES if name.mask & ON_DEMAND} == {
        "ObjectAccessed:Get",
        "ObjectAccessed:Head",
        "ObjectAccessed:Attributes",
        "ObjectAccessed:GetRetention",
        "ObjectAccessed:GetLegalHold",
        "ObjectRemoved:NoOP",
        "ObjectAcl:Put",
    }

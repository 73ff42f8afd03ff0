from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.objects.config.expiry import Expiry
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.objects.config.tagging import Tag
from lakebed.wire.s3.documents.lifecycle import expiration_header, read_lifecycle, write_lifecycle
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood


def no_id() -> str:
    raise AssertionError("every rule here has an id")


def read(rules: list[dict[str, Any]]) -> LifecycleConfiguration:  # Any: botocore's parameters
    body = sent("PutBucketLifecycleConfiguration", Bucket="b", LifecycleConfiguration={"Rules": rules})
    return read_lifecycle(body, no_id)


RULES: list[dict[str, Any]] = [  # Any: botocore's parameters
    {"ID": "legacy", "Prefix": "p/", "Status": "Enabled", "Expiration": {"Days": 31}},
    {"ID": "off", "Prefix": "", "Status": "Disabled", "Expiration": {"ExpiredObjectDeleteMarker": True}},
    {"ID": "all", "Filter": {}, "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}},
    {
        "ID": "dated <&>",
        "Filter": {"Prefix": "x"},
        "Status": "Enabled",
        "Expiration": {"Date": datetime(2030, 1, 1, tzinfo=UTC)},
    },
    {"ID": "tag", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Status": "Enabled", "Expiration": {"Days": 1}},
    {"ID": "big", "Filter": {"ObjectSizeGreaterThan": 0}, "Status": "Enabled", "Expiration": {"Days": 1}},
    {
        "ID": "many",
        "Filter": {
            "And": {
                "Prefix": "",
                "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
                "ObjectSizeGreaterThan": 5,
                "ObjectSizeLessThan": 50,
            }
        },
        "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 3},
    },
]


def test_lifecycle_rules_round_trip() -> None:
    response = understood("GetBucketLifecycleConfiguration", write_lifecycle(read(RULES)))
    assert response["Rules"] == RULES


def test_lifecycle_rules_are_parsed() -> None:
    by_id = {rule.id: rule for rule in read(RULES).rules}
    assert by_id["legacy"] == LifecycleRule(
        "legacy", True, LifecycleFilter("p/"), Expiration(days=31), has_legacy_prefix=True
    )
    assert by_id["dated <&>"].expiration == Expiration(at_ms=1893456000000)
    assert by_id["all"].filter == LifecycleFilter()
    assert by_id["all"].abort_uploads_after_days == 2
    assert by_id["many"].filter == LifecycleFilter("", (Tag("a", "1"), Tag("b", "2")), 5, 50)
    assert by_id["many"].noncurrent == NoncurrentExpiration(7, 3)


def test_rules_without_an_id_get_one() -> None:
    rule = {"Prefix": "", "Status": "Enabled", "Expiration": {"Days": 1}}
    body = sent("PutBucketLifecycleConfiguration", Bucket="b", LifecycleConfiguration={"Rules": [rule, rule]})
    numbers = count(1)
    assert [r.id for r in read_lifecycle(body, lambda: f"made-{next(numbers)}").rules] == ["made-1", "made-2"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<Rule/>",
        "<Rule><Status>enabled</Status><Prefix/><Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Prefix/><Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Filter/><Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Expiration/></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Expiration><Days>1</Days><Date>2030-01-01</Date></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Expiration><Date>soon</Date></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Expiration><Days>1.5</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Filter><And/></Filter><Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Filter><Prefix/><Tag><Key>k</Key><Value/></Tag></Filter>"
        "<Expiration><Days>1</Days></Expiration></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><NoncurrentVersionExpiration/></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><AbortIncompleteMultipartUpload/></Rule>",
        "<Rule><Status>Enabled</Status><Prefix/><Expiration><Days>1</Days></Expiration><Colour/></Rule>",
    ],
)
def test_invalid_lifecycle_configuration_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_lifecycle(f"<LifecycleConfiguration>{content}</LifecycleConfiguration>".encode(), lambda: "id")


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"Expiration": {"Days": 0}}, "Days"),
        ({"ID": "x" * 256}, "ID"),
        ({"Expiration": {"Date": datetime(2030, 1, 1, 12, tzinfo=UTC)}}, "Date"),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 0}}, "NoncurrentDays"),
    ],
)
def test_invalid_values_name_their_argument(change: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read([{"ID": "r", "Prefix": "", "Status": "Enabled", "Expiration": {"Days": 1}} | change])
    assert not isinstance(error.value, MalformedDocument)
    assert error.value.argument == argument


@pytest.mark.parametrize("kind", ["Transition", "NoncurrentVersionTransition"])
def test_transitions_are_not_supported(kind: str) -> None:
    rule = f"<Rule><ID>t</ID><Status>Enabled</Status><Prefix/><{kind}><Days>1</Days></{kind}></Rule>"
    with pytest.raises(NotSupported, match="transitions"):
        read_lifecycle(f"<LifecycleConfiguration>{rule}</LifecycleConfiguration>".encode(), no_id)


tags = st.lists(
    st.builds(Tag, st.text("abc", min_size=1, max_size=3), st.text("xyz", max_size=3)),
    max_size=3,
    unique_by=lambda t: t.key,
)
filters = st.builds(
    LifecycleFilter,
    st.none() | st.text("ab/<&", max_size=4),
    tags.map(tuple),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(101, 200),
)
expirations = st.builds(Expiration, days=st.integers(1, 2**31 - 1)) | st.builds(
    Expiration, at_ms=st.integers(0, 30_000).map(lambda day: day * 86_400_000)
)
noncurrents = st.builds(NoncurrentExpiration, st.integers(1, 5000), st.none() | st.integers(1, 100))
rules = st.builds(
    LifecycleRule,
    st.text("abc", min_size=1, max_size=4),
    st.booleans(),
    filters,
    st.none() | expirations,
    noncurrents,
)


@settings(max_examples=50)
@given(st.lists(rules, min_size=1, max_size=4, unique_by=lambda rule: rule.id))
def test_any_lifecycle_configuration_round_trips(made: list[LifecycleRule]) -> None:
    config = LifecycleConfiguration(tuple(made))
    assert read_lifecycle(write_lifecycle(config), no_id) == config


def test_expiration_header_has_an_http_date_and_an_encoded_rule() -> None:
    header = expiration_header(Expiry(1356048000000, "delete after a day, or so"))
    assert header == 'expiry-date="Fri, 21 Dec 2012 00:00:00 GMT", rule-id="delete%20after%20a%20day%2C%20or%20so"'

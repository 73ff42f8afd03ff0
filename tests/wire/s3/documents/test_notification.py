from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.names import EventName
from lakebed.events.rules import NO_RULES, NotificationConfiguration, NotificationRule
from lakebed.wire.s3.documents.notification import read_notification, write_notification
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood

ARN = "arn:lakebed:sqs:us-east-1:1:webhook"
QUEUES = [
    {
        "Id": "pictures & more",
        "QueueArn": ARN,
        "Events": ["s3:ObjectCreated:*", "s3:ObjectTagging:Put"],
        "Filter": {
            "Key": {"FilterRules": [{"Name": "prefix", "Value": "in/<a>"}, {"Name": "suffix", "Value": ".jpg"}]}
        },
    },
    {"Id": "gone", "QueueArn": ARN, "Events": ["s3:ObjectRemoved:Delete"]},
]
RULES = NotificationConfiguration(
    (
        NotificationRule(
            "pictures & more",
            ARN,
            (EventName.OBJECT_CREATED_ALL, EventName.OBJECT_TAGGING_PUT),
            "in/<a>",
            ".jpg",
        ),
        NotificationRule("gone", ARN, (EventName.OBJECT_REMOVED_DELETE,)),
    )
)


def read(content: str) -> NotificationConfiguration:
    body = f"<NotificationConfiguration>{content}</NotificationConfiguration>".encode()
    return read_notification(body, lambda: "new")


def rule(content: str, *, event: str = "<Event>s3:ObjectCreated:Put</Event>", queue: str = ARN) -> NotificationRule:
    queued = f"<QueueConfiguration><Queue>{queue}</Queue>{event}{content}</QueueConfiguration>"
    (found,) = read(queued).rules
    return found


def filtered(*rules: tuple[str, str], wrapped: bool = False) -> NotificationRule:
    inner = "".join(f"<FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule>" for name, value in rules)
    if wrapped:
        inner = f"<FilterRuleList>{inner}</FilterRuleList>"
    return rule(f"<Filter><S3Key>{inner}</S3Key></Filter>")


def test_notification_rules_round_trip() -> None:
    body = sent(
        "PutBucketNotificationConfiguration",
        Bucket="b",
        NotificationConfiguration={"QueueConfigurations": QUEUES},
    )
    assert read_notification(body, lambda: "new") == RULES
    parsed = understood("GetBucketNotificationConfiguration", write_notification(RULES))
    queues = parsed["QueueConfigurations"]
    for queue in queues:
        for one in queue.get("Filter", {}).get("Key", {}).get("FilterRules", []):
            one["Name"] = one["Name"].lower()
    assert queues == QUEUES


def test_no_rules_are_an_empty_document() -> None:
    assert read("") == NO_RULES
    assert understood("GetBucketNotificationConfiguration", write_notification(NO_RULES)) == {}


def test_rule_without_an_id_gets_one() -> None:
    assert rule("").id == "new"
    assert rule("<Id></Id>").id == "new"
    assert rule("<Id>mine</Id>").id == "mine"


def test_filters_are_parsed_in_any_order_and_case() -> None:
    assert (filtered(("Suffix", ".a"), ("PREFIX", "b")).prefix, filtered(("suffix", "")).suffix) == ("b", "")
    assert filtered(("prefix", "b"), wrapped=True).prefix == "b"
    assert rule("<Filter/>").prefix is None
    assert rule("<Filter><S3Key/></Filter>").prefix is None


def test_legacy_event_names_are_normalized() -> None:
    found = rule("", event="<Event>s3:ObjectCreated:PutTagging</Event>")
    assert b"<Event>s3:ObjectTagging:Put</Event>" in write_notification(NotificationConfiguration((found,)))


@pytest.mark.parametrize(
    "content",
    [
        "<Other/>",
        "<QueueConfiguration/>",
        f"<QueueConfiguration><Queue>{ARN}</Queue></QueueConfiguration>",
        "<QueueConfiguration><Event>s3:ObjectCreated:Put</Event></QueueConfiguration>",
        f"<QueueConfiguration><Queue>{ARN}</Queue><Event>s3:ObjectCreated:Put</Event><X/></QueueConfiguration>",
        f"<QueueConfiguration><Queue>{ARN}</Queue><Event>s3:ObjectCreated:Put</Event><Filter><X/></Filter>"
        "</QueueConfiguration>",
    ],
)
def test_invalid_notification_configuration_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read(content)


def test_other_documents_are_malformed() -> None:
    for body in (b"", b"{}", b"<Other/>", b"<NotificationConfiguration>"):
        with pytest.raises(MalformedDocument):
            read_notification(body, lambda: "new")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("infix", "a")], "prefix or suffix"),
        ([("prefix", "a"), ("Prefix", "b")], "more than one prefix"),
        ([("suffix", "a"), ("suffix", "b")], "more than one suffix"),
    ],
)
def test_invalid_filters_are_rejected(rules: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        filtered(*rules)
    assert not isinstance(error.value, MalformedDocument)


@pytest.mark.parametrize("part", ["<Name>prefix</Name>", "<Value>a</Value>", ""])
def test_filter_rule_without_name_or_value_is_rejected(part: str) -> None:
    with pytest.raises(InvalidInput, match="Name and a Value") as error:
        rule(f"<Filter><S3Key><FilterRule>{part}</FilterRule></S3Key></Filter>")
    assert not isinstance(error.value, MalformedDocument)


def test_unknown_event_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="not supported for notifications"):
        rule("", event="<Event>s3:ObjectCreated:Put</Event><Event>s3:ObjectCreated:Teleport</Event>")


@pytest.mark.parametrize("kind", ["TopicConfiguration", "CloudFunctionConfiguration", "EventBridgeConfiguration"])
def test_destinations_of_aws_services_are_rejected(kind: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(f"<{kind}/>")
    assert error.value.argument == "notification-destination"


NAMES = [name for name in EventName if name.value.startswith("s3:") and name.ordinal < 48]
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\ufffe\uffff", exclude_categories=["Cs", "Cc"]), max_size=12
)


@given(
    st.lists(
        st.builds(
            NotificationRule,
            TEXTS.filter(bool),
            st.just(ARN),
            st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple),
            st.none() | TEXTS,
            st.none() | TEXTS,
        ),
        max_size=4,
    )
)
def test_any_notification_configuration_round_trips(rules: list[NotificationRule]) -> None:
    configuration = NotificationConfiguration(tuple(rules))
    assert read_notification(write_notification(configuration), lambda: "new") == configuration

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.names import EventName
from lakebed.events.rules import NO_RULES, NotificationConfiguration, NotificationRule
from lakebed.events.rules.compiled import CompiledRules
from lakebed.events.rules.model import decode_configuration, encode_configuration
from lakebed.events.rules.patterns import ends_of, pattern_of
from lakebed.events.rules.validation import MAX_RULES, check_configuration, find_overlap

REGION = "us-east-1"
HOOK = "arn:lakebed:sqs::1:webhook"
KAFKA = "arn:minio:sqs:us-east-1:2:kafka"
PUT, DELETE = EventName.OBJECT_CREATED_PUT, EventName.OBJECT_REMOVED_DELETE


def rule(
    name: str = "a",
    arn: str = HOOK,
    events: tuple[EventName, ...] = (PUT,),
    prefix: str | None = None,
    suffix: str | None = None,
) -> NotificationRule:
    return NotificationRule(name, arn, events, prefix, suffix)


def check(*rules: NotificationRule) -> None:
    check_configuration(NotificationConfiguration(rules), REGION)


def test_disjoint_rules_are_accepted() -> None:
    check()
    check(rule())
    check(rule("a", events=(PUT,)), rule("b", events=(DELETE,)))
    check(rule("a", prefix="in/"), rule("b", prefix="out/"))
    check(rule("a", suffix=".jpg"), rule("b", suffix=".png"))
    check(rule("a", prefix="in/", suffix=".a"), rule("b", prefix="in/x", suffix=".b"))
    check(rule("a", arn="arn:rustfs:sqs:us-east-1:1:nats", events=(EventName.OBJECT_CREATED_ALL, PUT)))


def test_one_event_can_match_several_targets() -> None:
    check(rule("a", HOOK), rule("b", KAFKA), rule("c", "arn:lakebed:sqs::1:kafka"))


@pytest.mark.parametrize(
    ("rules", "argument"),
    [
        ([rule("a"), rule("a", KAFKA)], "Id"),
        ([rule("")], "Id"),
        ([rule("x" * 256)], "Id"),
        ([rule(events=())], "Event"),
        ([rule(events=(PUT, PUT))], "Event"),
        ([rule(arn="arn:lakebed:sqs:eu-1:1:webhook")], "Queue"),
        ([rule(arn="arn:aws:sqs:us-east-1:1:queue")], "Queue"),
        ([rule(prefix="a" * 1025)], "prefix"),
        ([rule(suffix="ü" * 513)], "suffix"),
        ([rule(prefix="a/../b")], "prefix"),
        ([rule(prefix="./a")], "prefix"),
        ([rule(suffix="a\\b")], "suffix"),
        ([rule("a"), rule("b")], "Filter"),
        ([rule("a"), rule("b", "arn:minio:sqs:us-east-1:1:webhook")], "Filter"),
        ([rule("a", events=(EventName.OBJECT_CREATED_ALL,)), rule("b", prefix="in/")], "Filter"),
        ([rule("a", prefix="in/", suffix=".a"), rule("b", prefix="in/x", suffix="b.a")], "Filter"),
        ([rule("a", prefix="in/*/x"), rule("b", prefix="in/y")], "Filter"),
        ([rule(str(number), prefix=f"{number}/") for number in range(MAX_RULES + 1)], "QueueConfiguration"),
    ],
)
def test_invalid_configurations_are_rejected_as_in_s3_and_minio(rules: list[NotificationRule], argument: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check(*rules)
    assert raised.value.argument == argument


def test_limits_are_in_bytes_and_inclusive() -> None:
    check(rule(prefix="a" * 1024, suffix="ü" * 512))
    check(*[rule(str(number), prefix=f"{number}/") for number in range(MAX_RULES)])
    check(rule(suffix=".hidden", prefix="..."))


RULES = st.builds(
    NotificationRule,
    st.uuids().map(str),
    st.sampled_from([HOOK, KAFKA]),
    st.lists(
        st.sampled_from([name for name in EventName if name.value.startswith("s3:")]), min_size=1, unique=True
    ).map(tuple),
    st.none() | st.text("ab/*", max_size=4),
    st.none() | st.text("ab.*", max_size=4),
)


@given(st.lists(RULES, max_size=4))
def test_configuration_round_trips(rules: list[NotificationRule]) -> None:
    configuration = NotificationConfiguration(tuple(rules))
    assert decode_configuration(encode_configuration(configuration)) == configuration
    assert (encode_configuration(configuration) is None) == (configuration == NO_RULES)


@given(st.lists(RULES, max_size=4), st.text("ab/.", max_size=6))
def test_valid_rules_match_a_target_at_most_once_per_event(rules: list[NotificationRule], key: str) -> None:
    configuration = NotificationConfiguration(tuple(rules))
    try:
        check_configuration(configuration, REGION)
    except InvalidInput:
        return
    for name in (PUT, DELETE, EventName.OBJECT_TAGGING_PUT):
        by_one = [CompiledRules(NotificationConfiguration((one,))).matches(name, key) for one in rules]
        targets = [target for found in by_one for target in found]
        assert len(targets) == len(set(targets))
        assert CompiledRules(configuration).matches(name, key) == {k: v for found in by_one for k, v in found.items()}


@given(st.lists(RULES, max_size=6), st.text("ab/.", max_size=4))
def test_overlapping_rules_match_a_common_key(rules: list[NotificationRule], middle: str) -> None:
    found = find_overlap(rules)
    if found is None:
        return
    one, other = found
    shared = next(name for name in EventName if not name.is_wildcard and name.mask & one.mask & other.mask)
    heads = sorted((ends_of(pattern_of(rule.prefix, rule.suffix))[0] for rule in found), key=len)
    tails = sorted((ends_of(pattern_of(rule.prefix, rule.suffix))[1] for rule in found), key=len)
    between = [pattern_of(rule.prefix, rule.suffix).split("*")[1:-1] for rule in found]
    key = heads[1] + "".join(piece for pieces in between for piece in pieces) + middle + tails[1]
    assert all(CompiledRules(NotificationConfiguration((rule,))).matches(shared, key) for rule in found)
    assert one.target_id == other.target_id

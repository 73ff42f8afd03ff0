from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.names import EventName
from lakebed.events.rules import NotificationConfiguration, NotificationRule
from lakebed.events.rules.compiled import CompiledRules, compiled
from lakebed.events.rules.model import encode_configuration
from lakebed.events.rules.patterns import KeyPattern, pattern_of

ONE, TWO = "arn:lakebed:sqs::1:webhook", "arn:lakebed:sqs::2:kafka"
RULES = NotificationConfiguration(
    (
        NotificationRule("pictures", ONE, (EventName.OBJECT_CREATED_ALL,), "images/", ".jpg"),
        NotificationRule("all", ONE, (EventName.OBJECT_CREATED_PUT, EventName.OBJECT_TAGGING_ALL)),
        NotificationRule("removed", TWO, (EventName.OBJECT_REMOVED_ALL,), "images/"),
        NotificationRule("uploaded", TWO, (EventName.OBJECT_CREATED_PUT,), None, ".jpg"),
    )
)
PUT = EventName.OBJECT_CREATED_PUT


def test_event_matches_a_target_once_by_its_first_rule() -> None:
    rules = CompiledRules(RULES)
    assert rules.matches(PUT, "images/a.jpg") == {"1:webhook": "pictures", "2:kafka": "uploaded"}
    assert rules.matches(PUT, "a.txt") == {"1:webhook": "all"}
    assert rules.matches(EventName.OBJECT_CREATED_COPY, "images/a.jpg") == {"1:webhook": "pictures"}
    assert rules.matches(EventName.OBJECT_REMOVED_DELETE, "images/a") == {"2:kafka": "removed"}
    assert rules.matches(EventName.OBJECT_REMOVED_DELETE, "other/a") == {}
    assert rules.matches(EventName.OBJECT_ACCESSED_GET, "images/a.jpg") == {}


def test_mask_is_the_union_of_the_rules() -> None:
    rules = CompiledRules(RULES)
    expected = 0
    for rule in RULES.rules:
        for name in rule.events:
            expected |= name.mask
    assert rules.mask == expected == RULES.mask
    assert not rules.mask & EventName.OBJECT_ACCESSED_ALL.mask


def test_missing_configuration_has_no_rules() -> None:
    assert compiled(None).matches(PUT, "k") == {}
    document = encode_configuration(RULES)
    assert compiled(document) is compiled(document)


def test_keys_are_matched_unencoded() -> None:
    rules = CompiledRules(NotificationConfiguration((NotificationRule("r", ONE, (PUT,), "2026 Q1/"),)))
    assert rules.matches(PUT, "2026 Q1/a%2Fb") == {"1:webhook": "r"}
    assert rules.matches(PUT, "2026+Q1/a") == {}


ANY_RULES = st.lists(
    st.builds(
        lambda number, arn, prefix, suffix: NotificationRule(
            f"r{number}", arn, (EventName.OBJECT_CREATED_PUT,), prefix, suffix
        ),
        st.integers(0, 1000),
        st.sampled_from([ONE, TWO]),
        st.none() | st.text("ab*", max_size=3),
        st.none() | st.text("ab*", max_size=3),
    ),
    max_size=8,
)


@given(ANY_RULES, st.text("ab", max_size=5))
def test_prefix_index_finds_the_same_rules_as_a_scan(rules: list[NotificationRule], key: str) -> None:
    expected: dict[str, str] = {}
    for rule in rules:
        if KeyPattern.of(pattern_of(rule.prefix, rule.suffix)).matches(key):
            expected.setdefault(rule.target_id, rule.id)
    found = CompiledRules(NotificationConfiguration(tuple(rules))).matches(EventName.OBJECT_CREATED_PUT, key)
    assert found == expected

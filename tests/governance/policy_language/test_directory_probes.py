from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import Principal, ResourceRules, Session
from lakebed.governance.policy_language.directory_probes import UNNAMED, matching_arns, probe_arns
from lakebed.governance.policy_language.wildcards import PolicyPattern

DIRECTORY = "arn:aws:s3:::lake/other/"


def no_values(key: str) -> tuple[str, ...] | None:
    return ("alice",) if key == "aws:username" else None


def policy(resource: str, element: str = "Resource") -> bytes:
    statement = {"Effect": "Deny", "Action": "s3:*", element: resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", True),
        ("arn:aws:s3:::lake/*", True),
        ("arn:aws:s3:::lake/other/*", True),
        ("arn:aws:s3:::lake/other/deep/secret", True),
        ("arn:aws:s3:::lake/*secret", True),
        ("arn:aws:s3:::l?ke/o*r/?", True),
        ("arn:aws:s3:::*/${aws:username}/x", True),
        ("arn:aws:s3:::lake/other/${aws:username}/*", True),
        ("arn:aws:s3:::lake/other/${s3:prefix}", False),
        ("arn:aws:s3:::lake", False),
        ("arn:aws:s3:::lake/other", False),
        ("arn:aws:s3:::lake/other10/*", False),
        ("arn:aws:s3:::lake/oth", False),
        ("arn:aws:s3:::pond/*", False),
        ("arn:aws:s3:::lake/other?", True),
    ],
)
def test_pattern_that_matches_in_the_directory_has_a_probe_there(pattern: str, found: bool) -> None:
    compiled = PolicyPattern(pattern)
    texts = list(matching_arns(compiled, DIRECTORY, no_values))
    assert bool(texts) is found
    for text in texts:
        assert text.startswith(DIRECTORY)
        assert compiled.matches(text, no_values)


pieces = st.lists(st.sampled_from(["*", "?", "a", "b", "/", "ab", "${*}"]), max_size=8).map("".join)
texts = st.text(alphabet="ab/*", max_size=6)


@given(pieces, texts.map(lambda text: f"{text}/"), texts)
def test_pattern_that_matches_some_key_of_the_directory_has_a_probe(pattern: str, directory: str, rest: str) -> None:
    compiled = PolicyPattern(pattern)
    found = list(matching_arns(compiled, directory, no_values))
    assert all(compiled.matches(text, no_values) and text.startswith(directory) for text in found)
    if compiled.matches(directory + rest, no_values):
        assert found


def test_probes_consider_bucket_identity_and_session_policies() -> None:
    session = Session(
        None, 0, 1, (policy("arn:aws:s3:::lake/other/c"),), outer_policies=(policy("arn:aws:s3:::*/other/d"),)
    )
    principal = Principal("alice", "1", "arn", policies=(policy("arn:aws:s3:::lake/other/b"),), session=session)
    rules = ResourceRules(owner="1", policy=policy("arn:aws:s3:::lake/other/a", "NotResource"))
    found = probe_arns(DIRECTORY, principal, rules, no_values)
    assert {DIRECTORY, f"{DIRECTORY}{UNNAMED}"} <= set(found)
    assert set(found) >= {f"{DIRECTORY}{key}" for key in "abc"}
    assert any(text.endswith("/other/d") for text in found)


@given(st.lists(pieces, min_size=1, max_size=3), texts)
def test_every_key_matches_at_least_the_patterns_of_some_probe(patterns: list[str], rest: str) -> None:
    """So every key that an Allow excludes, or a Deny with `NotResource` covers, is found."""
    whole = [f"{DIRECTORY}{pattern}" for pattern in patterns]
    principal = Principal("alice", "1", "arn", policies=tuple(map(policy, whole)))
    compiled = [PolicyPattern(text) for text in whole]

    def matching(key: str) -> set[str]:
        return {pattern.text for pattern in compiled if pattern.matches(key, no_values)}

    found = probe_arns(DIRECTORY, principal, ResourceRules(owner="1"), no_values)
    assert any(matching(probe) <= matching(f"{DIRECTORY}{rest}") for probe in found)

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.wildcards import PolicyPattern, fold_key

ALPHABET = st.text(alphabet="ab:/*?.\n", max_size=10)


def none(key: str) -> None:
    return None


def values(**found: str) -> object:
    return lambda key: (found[key],) if key in found else None


def naive(pattern: str, text: str, *, arn: bool = False) -> bool:
    """Brute-force matching. In an ARN, wildcards of the first five parts do not cross a colon."""

    @cache
    def match(p: int, t: int) -> bool:
        if p == len(pattern):
            return t == len(text)
        confined = arn and pattern[:p].count(":") < 5
        free = t < len(text) and not (confined and text[t] == ":")
        if pattern[p] == "*":
            return match(p + 1, t) or (free and match(p, t + 1))
        if pattern[p] == "?":
            return free and match(p + 1, t + 1)
        return t < len(text) and pattern[p] == text[t] and match(p + 1, t + 1)

    return match(0, 0)


@settings(deadline=None)
@given(pattern=ALPHABET, text=ALPHABET)
@example(pattern="*a*", text="bab")
@example(pattern="a?*b", text="aab")
@example(pattern="*ab*b", text="aabab")
@example(pattern="?", text="\n")
def test_pattern_agrees_with_brute_force(pattern: str, text: str) -> None:
    assert PolicyPattern(pattern).matches(text, none) is naive(pattern, text)


@settings(deadline=None)
@given(pattern=st.text(alphabet="ab:*?", max_size=14), text=st.text(alphabet="ab:", max_size=14))
@example(pattern="a:*:b:::*", text="a:a:b:b:::a")
@example(pattern="*", text="a:b")
@example(pattern=":::::*", text="::::::a")
def test_arn_pattern_agrees_with_brute_force(pattern: str, text: str) -> None:
    assert PolicyPattern(pattern, arn=True).matches(text, none) is naive(pattern, text, arn=True)


@settings(deadline=None)
@given(text=st.text(max_size=20))
def test_plain_text_matches_only_itself(text: str) -> None:
    pattern = PolicyPattern(text, wildcards=False, variables=False)
    assert pattern.matches(text, none)
    assert not pattern.matches(text + "x", none)


def test_many_stars_on_a_long_text_terminate() -> None:
    # With backtracking this would not terminate in practice.
    assert not PolicyPattern("*a" * 40 + "b").matches("a" * 5000, none)


def test_variable_is_replaced_by_the_requests_value() -> None:
    pattern = PolicyPattern("home/${aws:username}/*")
    assert pattern.matches("home/bob/x", values(**{"aws:username": "bob"}))  # type: ignore[arg-type]  # a lambda
    assert not pattern.matches("home/eve/x", values(**{"aws:username": "bob"}))  # type: ignore[arg-type]  # a lambda


@pytest.mark.parametrize("name", ["*", "b?b", "${aws:username}", "[a-z]", "b.b", "(?:x)"])
def test_wildcards_in_a_variables_value_are_plain_text(name: str) -> None:
    pattern = PolicyPattern("home/${aws:username}/*")
    assert pattern.matches(f"home/{name}/x", lambda key: (name,))
    assert not pattern.matches("home/bob/x", lambda key: (name,))


def test_variable_without_value_matches_nothing() -> None:
    pattern = PolicyPattern("home/${aws:username}/*")
    assert not pattern.matches("home//x", none)
    assert not pattern.matches("home/${aws:username}/x", none)


def test_variable_with_several_values_matches_nothing() -> None:
    assert not PolicyPattern("${aws:tagkeys}").matches("a", lambda key: ("a", "b"))


@pytest.mark.parametrize("text", ["${aws:username,'guest'}", "${ aws:username , 'guest' }"])
def test_variable_default_replaces_a_missing_value(text: str) -> None:
    assert PolicyPattern(text).matches("guest", none)
    assert PolicyPattern(text).matches("bob", lambda key: ("bob",))
    assert not PolicyPattern(text).matches("guest", lambda key: ("bob",))


def test_variable_names_are_looked_up_in_lower_case() -> None:
    requested: list[str] = []

    def record(key: str) -> tuple[str, ...]:
        requested.append(key)
        return ("x",)

    PolicyPattern("${AWS:PrincipalTag/Team}").matches("x", record)
    assert requested == ["aws:principaltag/Team"]


@pytest.mark.parametrize(("text", "plain"), [("a${*}b", "a*b"), ("a${?}b", "a?b"), ("a${$}{b}", "a${b}")])
def test_escaped_wildcards_are_plain_characters(text: str, plain: str) -> None:
    assert PolicyPattern(text).matches(plain, none)
    assert not PolicyPattern(text).matches("axb", none)
    assert PolicyPattern(text).is_fixed


def test_older_version_has_no_variables() -> None:
    pattern = PolicyPattern("${aws:username}", variables=False)
    assert pattern.matches("${aws:username}", lambda key: ("bob",))
    assert not pattern.matches("bob", lambda key: ("bob",))


@pytest.mark.parametrize("text", ["${", "${}", "${aws:username", "${username}", "${aws:a b}", "x${aws:a, b}"])
def test_invalid_variable_is_refused(text: str) -> None:
    with pytest.raises(InvalidPolicy, match="variable"):
        PolicyPattern(text)


def test_ignore_case_applies_to_text_value_and_variable() -> None:
    pattern = PolicyPattern("Straße-${aws:username}", wildcards=False, ignore_case=True)
    assert pattern.matches("STRASSE-BOB", lambda key: ("Bob",))
    assert not pattern.matches("STRASSE-EVE", lambda key: ("Bob",))


def test_tag_names_keep_their_case() -> None:
    assert fold_key("S3:ExistingObjectTag/Team") == "s3:existingobjecttag/Team"

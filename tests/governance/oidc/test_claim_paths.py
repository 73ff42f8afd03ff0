from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.governance.oidc import ClaimPath

names = st.text(st.characters(exclude_characters='"', codec="utf-8"), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sub", ("sub",)),
        ("realm_access/roles", ("realm_access", "roles")),
        ('"https://example.com/roles"', ("https://example.com/roles",)),
        ('a/"b/c"/d', ("a", "b/c", "d")),
        ('"a"/b', ("a", "b")),
    ],
)
def test_paths_are_names_separated_by_slashes(text: str, expected: tuple[str, ...]) -> None:
    assert ClaimPath.parse(text).names == expected


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a//b", '"', '"a', 'a"b', '"a"b', '""', 'a/""'])
def test_invalid_paths_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        ClaimPath.parse(text)


@given(st.lists(names, min_size=1, max_size=4), st.integers())
def test_value_at_a_path_is_found(path: list[str], value: int) -> None:
    spelled = "/".join(f'"{name}"' for name in path)
    claims: object = value
    for name in reversed(path):
        claims = {name: claims, "other": 1} if name != "other" else {name: claims}
    assert isinstance(claims, dict)
    assert ClaimPath.parse(spelled).find(claims) == value


@given(st.text(max_size=20))
def test_random_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = ClaimPath.parse(text)
    except InvalidInput:
        return
    assert path.names
    assert all(path.names)


def test_missing_claim_is_none() -> None:
    path = ClaimPath.parse("a/b")
    absent: list[dict[str, object]] = [{}, {"a": 1}, {"a": []}, {"a": {}}, {"a": {"b": None}}, {"b": 1}]
    for claims in absent:
        assert path.find(claims) is None


def test_user_name_claim_must_be_a_string() -> None:
    path = ClaimPath.parse("a")
    assert path.find_text({"a": "x"}) == "x"
    for other in ("", 7, ["x"], {"x": 1}, True):
        assert path.find_text({"a": other}) is None

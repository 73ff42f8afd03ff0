from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakebed.catalog.identifiers import (
    MAX_NAME_BYTES,
    MAX_NAMESPACE_BYTES,
    SEPARATOR,
    Identifier,
    check_identifier,
    check_namespace,
    display,
    levels_of,
    path_of,
    policy_value,
)
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import InvalidName
from tests.objects.stores import ROOT

from .harness import CatalogHarness

LONGEST = "x" * MAX_NAME_BYTES

names = st.text("abA.0_- é\ud7ff\ue000\uffff\U00010000\U0010ffff'\"%", min_size=1, max_size=6).filter(
    lambda text: text == text.strip() and text not in (".", "..")
)
"""Valid names with characters that are difficult in ordering, URLs and quoting."""


@pytest.mark.parametrize(
    "part",
    ["a", "A", "sales.eu", "with blank", "ümlaut", "日本", "%2F", "a:b", "'; --", "...", ".a", "{a}", "a\x7f", LONGEST],
)
def test_valid_name_is_accepted(part: str) -> None:
    assert check_identifier([part, part], part) == Identifier((part, part), part)


@pytest.mark.parametrize(
    "part",
    ["", ".", "..", "a/b", "a\\b", "*", "a*", "?", " a", "a ", "a\n", "\t", "a\0", "a\x1fb", "\ud800", LONGEST + "x"],
)
def test_invalid_name_is_rejected_at_every_level(part: str) -> None:
    with pytest.raises(InvalidName):
        check_identifier(["ns"], part)
    with pytest.raises(InvalidName):
        check_namespace([part])
    with pytest.raises(InvalidName):
        check_namespace(["ns", part])


def test_namespace_requires_a_level() -> None:
    with pytest.raises(InvalidName, match="at least one level"):
        check_namespace([])


def test_limit_of_a_name_counts_bytes() -> None:
    assert check_namespace(["é" * 127])
    with pytest.raises(InvalidName, match="maximum=255"):
        check_namespace(["é" * 128])


def test_limit_of_a_namespace_counts_levels_and_separators() -> None:
    fits = [LONGEST, LONGEST, LONGEST, "x" * 200, "x" * (MAX_NAMESPACE_BYTES - 3 * (MAX_NAME_BYTES + 1) - 201)]
    assert check_namespace(fits) == tuple(fits)
    with pytest.raises(InvalidName, match="maximum=1024"):
        check_namespace([*fits[:4], fits[4] + "x"])


def test_identifier_is_displayed_with_dots() -> None:
    assert str(check_identifier(["a", "b"], "t")) == "a.b.t"
    assert display(("a", "b")) == "a.b"


def test_no_levels_are_no_path() -> None:
    assert levels_of(path_of(())) == ()


@pytest.mark.parametrize(
    ("levels", "value"),
    [
        (("sales",), "sales"),
        (("sales", "eu"), "sales.eu"),
        (("sales.eu",), "sales%2Eeu"),
        (("a.b", "c"), "a%2Eb.c"),
        (("100%",), "100%25"),
        (("%2E",), "%252E"),
    ],
)
def test_namespace_is_spelled_for_policies(levels: tuple[str, ...], value: str) -> None:
    assert policy_value(levels) == value


@given(st.lists(names, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
@example(["a.b"], ["a", "b"])
@example(["a%2Eb"], ["a.b"])
def test_policy_spelling_of_namespaces_is_one_to_one(one: list[str], other: list[str]) -> None:
    assert (policy_value(one) == policy_value(other)) == (one == other)
    assert policy_value(one).count(".") == len(one) - 1


@given(st.lists(names, min_size=1, max_size=4))
def test_levels_round_trip_through_their_path(levels: list[str]) -> None:
    assert levels_of(path_of(check_namespace(levels))) == tuple(levels)


@given(st.lists(st.text(max_size=8), max_size=3), st.text(max_size=8))
@example(["a" + SEPARATOR], "t")
def test_accepted_names_are_unambiguous(levels: list[str], name: str) -> None:
    try:
        identifier = check_identifier(levels, name)
    except InvalidName:
        return
    assert levels_of(path_of(identifier.namespace)) == tuple(levels)
    assert not set(name) & {"/", "\\", "*", "?", "\0", SEPARATOR}


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=st.lists(names, min_size=1, max_size=6, unique=True), step=st.integers(1, 3))
@pytest.mark.parametrize(
    "open_object_store",
    ["sqlite-memory", pytest.param("postgres-memory", marks=pytest.mark.integration)],
    indirect=True,
)
async def test_names_are_listed_in_byte_order(catalog: CatalogHarness, chosen: list[str], step: int) -> None:
    parent = f"parent-{await catalog.last_event()}"
    await catalog.namespace(parent)
    for one in chosen:
        await catalog.namespace(parent, one)
        await catalog.create(one, namespace=parent)
    in_order = sorted(chosen, key=str.encode)
    listed: list[str] = []
    while True:
        page = await catalog.namespaces.list(
            ROOT, "lake", [parent], after=path_of((parent, listed[-1])) if listed else "", limit=step
        )
        listed += [one.levels[-1] for one in page.items]
        if not page.truncated:
            break
    assert listed == in_order
    tables = await catalog.entries.list(ROOT, "lake", [parent], EntryKind.TABLE, after="", limit=100)
    assert tables.names == in_order

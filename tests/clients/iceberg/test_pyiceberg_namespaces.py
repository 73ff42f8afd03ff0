"""PyIceberg and namespaces: nested ones, odd names, properties."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    RESTError,
)

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def fresh() -> str:
    """An unused name."""
    return f"ns_{uuid.uuid4().hex[:16]}"


def properties_set(catalog: RestCatalog, name: str | tuple[str, ...]) -> dict[str, str]:
    """The properties of a namespace without its location, which is always present."""
    found = dict(catalog.load_namespace_properties(name))
    assert found.pop("location").startswith("s3://")
    return found


def test_namespace_is_created_and_dropped(catalog: RestCatalog, fresh: str) -> None:
    assert not catalog.namespace_exists(fresh)
    catalog.create_namespace(fresh, {"owner": "tests", "ünï": "ćödé"})
    assert catalog.namespace_exists(fresh)
    assert (fresh,) in catalog.list_namespaces()
    assert properties_set(catalog, fresh) == {"owner": "tests", "ünï": "ćödé"}
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(fresh)
    catalog.create_namespace_if_not_exists(fresh)
    catalog.drop_namespace(fresh)
    assert not catalog.namespace_exists(fresh)
    assert (fresh,) not in catalog.list_namespaces()


def test_properties_are_set_removed_and_reported(catalog: RestCatalog, fresh: str) -> None:
    catalog.create_namespace(fresh, {"kept": "1", "changed": "1", "removed": "1"})
    summary = catalog.update_namespace_properties(fresh, {"removed", "absent"}, {"changed": "2", "new": "3"})
    assert (summary.removed, sorted(summary.updated), summary.missing) == (["removed"], ["changed", "new"], ["absent"])
    assert properties_set(catalog, fresh) == {"kept": "1", "changed": "2", "new": "3"}
    with pytest.raises(RESTError, match="UnprocessableEntity"):
        catalog.update_namespace_properties(fresh, {"kept"}, {"kept": "2"})


def test_namespaces_nest(catalog: RestCatalog, fresh: str) -> None:
    catalog.create_namespace(fresh)
    for name in ((fresh, "a"), (fresh, "b"), (fresh, "a", "deep"), (fresh, "a", "deep", "deeper")):
        catalog.create_namespace(name, {"path": "/".join(name)})
    assert catalog.list_namespaces(fresh) == [(fresh, "a"), (fresh, "b")]
    assert catalog.list_namespaces((fresh, "a")) == [(fresh, "a", "deep")]
    assert catalog.list_namespaces((fresh, "a", "deep")) == [(fresh, "a", "deep", "deeper")]
    assert catalog.list_namespaces((fresh, "b")) == []
    assert catalog.load_namespace_properties((fresh, "a", "deep"))["path"] == f"{fresh}/a/deep"
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace((fresh, "a"))
    for dropped in ((fresh, "a", "deep", "deeper"), (fresh, "a", "deep"), (fresh, "a"), (fresh, "b"), (fresh,)):
        catalog.drop_namespace(dropped)
    assert not catalog.namespace_exists(fresh)


@pytest.mark.parametrize(
    "level", ["with.dot", "UPPER", "upper", "ünïcödé-名前", "with blank", "100%", "a+b", "x=1&y#f", "semi;colon,comma"]
)
def test_level_may_be_any_text(catalog: RestCatalog, fresh: str, level: str) -> None:
    name = (fresh, level, "below")
    catalog.create_namespace(name, {"of": level})
    assert catalog.list_namespaces((fresh,)) == [(fresh, level)]
    assert catalog.list_namespaces((fresh, level)) == [name]
    assert properties_set(catalog, name) == {"of": level}
    table = catalog.create_table((*name, level), schema=SCHEMA)
    assert catalog.list_tables(name) == [(*name, level)]
    assert catalog.load_table((*name, level)).metadata == table.metadata
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(name)
    catalog.drop_table((*name, level))
    catalog.drop_namespace(name)


@pytest.mark.parametrize("level", ["a/b", "a*", "a?", " a", "a ", "..", "tab\t"])
def test_names_unusable_in_paths_or_policies_are_refused(catalog: RestCatalog, fresh: str, level: str) -> None:
    with pytest.raises(BadRequestError):
        catalog.create_namespace((fresh, level))
    assert not catalog.namespace_exists(fresh)


def test_dot_separates_levels_only_in_strings(catalog: RestCatalog, fresh: str) -> None:
    """PyIceberg reads the string `a.b` as two levels; a level that contains a dot is another namespace."""
    catalog.create_namespace((fresh, "a", "b"))
    catalog.create_namespace((fresh, "a.b"))
    assert catalog.list_namespaces(f"{fresh}.a") == [(fresh, "a", "b")]
    assert catalog.list_namespaces(fresh) == [(fresh, "a"), (fresh, "a.b")]


def test_absent_namespace_is_reported(catalog: RestCatalog, fresh: str) -> None:
    actions: tuple[Callable[[], object], ...] = (
        lambda: catalog.load_namespace_properties(fresh),
        lambda: catalog.drop_namespace(fresh),
        lambda: catalog.list_namespaces(fresh),
        lambda: catalog.list_tables(fresh),
        lambda: catalog.list_views(fresh),
        lambda: catalog.update_namespace_properties(fresh, updates={"a": "1"}),
        lambda: catalog.create_table((fresh, "t"), schema=SCHEMA),
    )
    for action in actions:
        with pytest.raises(NoSuchNamespaceError):
            action()


def test_many_namespaces_are_each_listed_once(lake: Lake, fresh: str) -> None:
    names = [(fresh, f"n{number:03}") for number in range(120)]
    for name in names:
        lake.call("POST", "namespaces", {"namespace": name})
    with lake.catalog(properties={"rest-page-size": "50"}) as catalog:
        assert catalog.list_namespaces(fresh) == names

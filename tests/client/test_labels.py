from __future__ import annotations

import pytest

from lakebed.client.labels import KINDS, Owner, Subject
from lakebed.core.errors import InvalidInput, NoSuchTable
from lakebed.governance.labels import LabelKind

from .conftest import Lake


def test_label_kinds_match_the_server() -> None:
    assert set(KINDS) == set(LabelKind)


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("catalog", "lake", "lake"),
        ("namespace", "a.b", "pond.a.b"),
        ("table", "a.b.t", "pond.a.b.t"),
        ("policy", "a.p", "pond.a.p"),
        ("catalog-role", "a.reader", "pond.a.reader"),
        ("principal", "ann.b", "ann.b"),
        ("principal-role", "team", "team"),
    ],
)
def test_subjects_and_owners_are_parsed(kind: str, name: str, shown: str) -> None:
    subject = Subject.parse(kind, name, catalog="pond")
    assert (subject.kind, str(subject)) == (kind, shown)


@pytest.mark.parametrize(("kind", "name"), [("stream", "a.b"), ("table", "t"), ("policy", "p")])
def test_invalid_names_are_rejected(kind: str, name: str) -> None:
    with pytest.raises(InvalidInput):
        Subject.parse(kind, name, catalog="pond")
    with pytest.raises(InvalidInput):
        Subject.parse("table", "a.t")
    with pytest.raises(InvalidInput):
        Owner.parse("ann")


@pytest.mark.integration
@pytest.mark.slow
def test_labels_are_set_read_and_found(lake: Lake) -> None:
    table, labels = lake.table(), lake.client.labels
    subject = Subject.parse("table", "ns.t", catalog=table.warehouse)
    team = Owner.parse("principal-role:service_admin")
    changed = labels.change(subject, set_tags={"tier": "gold", "domain": "sales"}, owner=team)
    assert (changed.subject, changed.owner) == (subject, team)
    assert labels.get(subject) == changed
    catalog = Subject.parse("catalog", table.warehouse)
    labels.change(catalog, set_tags={"tier": "gold"}, owner=Owner("principal", "root"))
    found = list(labels.find("tier:gold", catalog=table.warehouse))
    assert {one.subject for one in found} == {subject, catalog}
    assert [one.subject for one in labels.find(owner=team, kind="table", catalog=table.warehouse)] == [subject]
    changed = labels.change(subject, remove_tags=["tier"], owner=None)
    assert (changed.tags, changed.owner) == ({"domain": "sales"}, None)
    with pytest.raises(NoSuchTable):
        labels.get(Subject.parse("table", "ns.none", catalog=table.warehouse))

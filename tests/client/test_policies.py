from __future__ import annotations

import pytest

from lakebed.client.policies import CATALOG, namespace_target, table_target
from lakebed.core.errors import (
    AlreadyExists,
    AttachmentConflict,
    InvalidPolicy,
    NoSuchAttachment,
    NoSuchPolicy,
    PolicyInUse,
    PolicyVersionMismatch,
)

from .conftest import Lake

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMPACTION = "system.data-compaction"
NS = ("ns",)


def test_policy_is_created_attached_and_applies(lake: Lake) -> None:
    table, policies = lake.table(), lake.client.policies
    warehouse = table.warehouse
    made = policies.create(warehouse, NS, "far", COMPACTION, {"enable": True}, description="for all")
    assert (made.name, made.policy_type, made.version, made.inheritable) == ("far", COMPACTION, 0, True)
    assert policies.get(warehouse, NS, "far") == made
    policies.create(warehouse, NS, "near", COMPACTION, '{"enable": false}')
    assert [one.name for one in policies.list(warehouse, NS)] == ["far", "near"]
    assert list(policies.list(warehouse, NS, policy_type="system.snapshot-expiry")) == []

    policies.attach(warehouse, NS, "far", CATALOG, parameters={"min-input-files": "7"})
    policies.attach(warehouse, NS, "near", table_target(NS, "t"))
    (held,) = policies.applicable(warehouse, NS, "t")
    assert (held.name, held.inherited, held.attached_to) == ("near", False, "table ns.t")
    assert [(one.name, one.attached_to) for one in held.overrides] == [("far", "catalog")]
    assert list(policies.why(table)) == [held]
    (above,) = policies.applicable(warehouse, NS)
    assert (above.name, above.inherited, above.parameters) == ("far", True, {"min-input-files": "7"})

    policies.detach(warehouse, NS, "near", table_target(NS, "t"))
    with pytest.raises(NoSuchAttachment):
        policies.detach(warehouse, NS, "near", table_target(NS, "t"))
    with pytest.raises(PolicyInUse):
        policies.drop(warehouse, NS, "far")
    policies.drop(warehouse, NS, "far", detach_all=True)
    with pytest.raises(NoSuchPolicy):
        policies.get(warehouse, NS, "far")
    assert list(policies.why(table)) == []


def test_policy_update_requires_the_current_version(lake: Lake) -> None:
    warehouse, policies = lake.warehouse(), lake.client.policies
    policies.create(warehouse, NS, "p", COMPACTION, {"enable": True})
    with pytest.raises(AlreadyExists):
        policies.create(warehouse, NS, "p", COMPACTION, {"enable": True})
    changed = policies.update(warehouse, NS, "p", {"enable": False}, current_version=0)
    assert changed.version == 1
    with pytest.raises(PolicyVersionMismatch):
        policies.update(warehouse, NS, "p", {"enable": True}, current_version=0)


def test_invalid_policy_error_names_the_path(lake: Lake) -> None:
    warehouse, policies = lake.warehouse(), lake.client.policies
    with pytest.raises(InvalidPolicy, match=r"\$\.config"):
        policies.create(warehouse, NS, "p", COMPACTION, {"enable": True, "config": {"target-file-size-bytes": "large"}})
    policies.create(warehouse, NS, "one", COMPACTION, {"enable": True})
    policies.create(warehouse, NS, "two", COMPACTION, {"enable": True})
    policies.attach(warehouse, NS, "one", namespace_target(NS))
    policies.attach(warehouse, NS, "one", namespace_target(NS))
    with pytest.raises(AttachmentConflict):
        policies.attach(warehouse, NS, "two", namespace_target(NS))


def test_patch_changes_given_fields_and_old_versions_are_kept(lake: Lake) -> None:
    warehouse, policies = lake.warehouse(), lake.client.policies
    policies.create(warehouse, NS, "p", COMPACTION, {"enable": True}, description="why")
    changed = policies.patch(warehouse, NS, "p", content={"enable": False}, current_version=0)
    assert (changed.version, changed.description) == (1, "why")
    changed = policies.patch(warehouse, NS, "p", description=None, current_version=1)
    assert (changed.version, changed.description, changed.content) == (2, None, '{"enable":false}')
    versions = list(policies.versions(warehouse, NS, "p"))
    assert [(one.version, one.created_by, one.description) for one in versions] == [
        (2, "root", None),
        (1, "root", "why"),
        (0, "root", "why"),
    ]
    past = policies.version(warehouse, NS, "p", 0)
    assert (past.content, past.version, past.created_by) == ('{"enable":true}', 0, "root")
    with pytest.raises(NoSuchPolicy):
        policies.version(warehouse, NS, "p", 3)


def test_policy_targets_effects_and_uncovered_tables_are_listed(lake: Lake) -> None:
    table, policies = lake.table(), lake.client.policies
    warehouse = table.warehouse
    other = lake.table(warehouse, "u")
    policies.create(warehouse, NS, "p", COMPACTION, {"enable": True})
    assert list(policies.uncovered(warehouse)) in ([table, other], [other, table])
    assert {one.name for one in policies.effect(warehouse, NS, "p", CATALOG)} == {"t", "u"}
    (affected,) = policies.effect(warehouse, NS, "p", table_target(NS, "t"))
    (change,) = affected.changes
    assert (affected.kind, affected.namespace, affected.name, change.before) == ("table", NS, "t", None)
    assert change.after is not None
    assert (change.after.name, change.why) == ("p", "policy ns.p v0, attached to table ns.t")
    policies.attach(warehouse, NS, "p", table_target(NS, "t"), parameters={"min-input-files": "3"})
    (target,) = policies.targets(warehouse, NS, "p")
    assert (target.attached_to, target.target, target.parameters) == (
        "table ns.t",
        table_target(NS, "t"),
        {"min-input-files": "3"},
    )
    assert list(policies.uncovered(warehouse, NS, policy_type=COMPACTION)) == [other]
    (gone,) = policies.effect(warehouse, NS, "p", table_target(NS, "t"), change="detach")
    assert gone.changes[0].after is None

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


def test_a_policy_lives_is_attached_and_holds(lake: Lake) -> None:
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


def test_a_change_is_made_to_the_version_that_was_read(lake: Lake) -> None:
    warehouse, policies = lake.warehouse(), lake.client.policies
    policies.create(warehouse, NS, "p", COMPACTION, {"enable": True})
    with pytest.raises(AlreadyExists):
        policies.create(warehouse, NS, "p", COMPACTION, {"enable": True})
    changed = policies.update(warehouse, NS, "p", {"enable": False}, current_version=0)
    assert changed.version == 1
    with pytest.raises(PolicyVersionMismatch):
        policies.update(warehouse, NS, "p", {"enable": True}, current_version=0)


def test_what_is_wrong_in_a_policy_is_told_by_its_path(lake: Lake) -> None:
    warehouse, policies = lake.warehouse(), lake.client.policies
    with pytest.raises(InvalidPolicy, match=r"\$\.config"):
        policies.create(warehouse, NS, "p", COMPACTION, {"enable": True, "config": {"target-file-size-bytes": "large"}})
    policies.create(warehouse, NS, "one", COMPACTION, {"enable": True})
    policies.create(warehouse, NS, "two", COMPACTION, {"enable": True})
    policies.attach(warehouse, NS, "one", namespace_target(NS))
    policies.attach(warehouse, NS, "one", namespace_target(NS))
    with pytest.raises(AttachmentConflict):
        policies.attach(warehouse, NS, "two", namespace_target(NS))

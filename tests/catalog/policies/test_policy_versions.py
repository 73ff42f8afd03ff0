from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.policies.policy_versions import PolicyVersions
from lakebed.core.errors import AccessDenied, NoSuchPolicy, PolicyVersionMismatch
from lakebed.core.unset import UNSET
from lakebed.governance.policies import PolicyVersion
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, user_with
from tests.objects.stores import ROOT

from .policy_catalog import OFF, ON, PolicyHarness, wire_policies

COMPACT = '{"enable": true, "config": {"min-input-files": 2}}'


def versions_of(policing: PolicyHarness) -> PolicyVersions:
    return PolicyVersions(policing.catalog.store.meta, policing.policies)


async def listed(policing: PolicyHarness, **more: int) -> list[PolicyVersion]:
    return (await versions_of(policing).list(ROOT, "lake", ["ns"], "p", **more)).items


async def test_every_version_is_stored_with_its_author(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.create(description="first")
    start = catalog.store.clock.now_ms()
    catalog.store.clock.advance(7)
    ann = user_with("lakebed:UpdatePolicy", "lakebed:ReadPolicy", principal="ann")
    await policing.update(content=OFF, version=0, caller=ann)
    await policing.update(content=COMPACT, version=1, description="third")
    later = catalog.store.clock.now_ms()
    assert await listed(policing) == [
        PolicyVersion(2, "third", COMPACT, "root", later),
        PolicyVersion(1, None, OFF, "ann", later),
        PolicyVersion(0, "first", ON, "root", start),
    ]
    as_it_was, made = await versions_of(policing).get(ROOT, "lake", ["ns"], "p", 1)
    assert (as_it_was.version, as_it_was.content, as_it_was.description) == (1, OFF, None)
    assert (as_it_was.name, as_it_was.updated_ms, made.principal) == ("p", later, "ann")
    assert (await policing.get()).version == 2


async def test_version_pages_are_stable_under_updates(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.create()
    for version in range(4):
        await policing.update(content=OFF if version % 2 == 0 else ON, version=version)
    page = await versions_of(policing).list(ROOT, "lake", ["ns"], "p", limit=2)
    assert ([one.version for one in page.items], page.truncated) == ([4, 3], True)
    await policing.update(content=OFF, version=4)
    page = await versions_of(policing).list(ROOT, "lake", ["ns"], "p", before=3, limit=3)
    assert ([one.version for one in page.items], page.truncated) == ([2, 1, 0], False)


async def test_unchanged_or_failed_update_stores_no_version(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create()
    await policing.update(content=ON, version=0)
    with pytest.raises(PolicyVersionMismatch):
        await policing.update(content=OFF, version=3)
    assert [one.version for one in await listed(policing)] == [0]


async def test_stored_versions_are_immutable(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create(description="why")
    changed = await policing.update(content=OFF, version=0, description=UNSET)
    assert (changed.content, changed.description, changed.version) == (OFF, "why", 1)
    changed = await policing.update(content=UNSET, version=1, description="because")
    assert (changed.content, changed.description, changed.version) == (OFF, "because", 2)
    same = await policing.update(content=UNSET, version=2, description=UNSET)
    assert same == changed


async def test_versions_are_deleted_with_their_policy(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.create()
    await policing.update()
    await policing.drop()
    assert await catalog.store.meta.rows("SELECT * FROM policy_versions") == []
    await policing.create()
    assert [one.version for one in await listed(policing)] == [0]
    with pytest.raises(NoSuchPolicy):
        await versions_of(policing).get(ROOT, "lake", ["ns"], "p", 1)


async def test_versions_require_permission_to_read_the_policy(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create()
    versions = versions_of(policing)
    for caller in (UNPRIVILEGED, user_with("lakebed:ListPolicies", "s3tables:*")):
        with pytest.raises(AccessDenied):
            await versions.list(caller, "lake", ["ns"], "p")
        with pytest.raises(AccessDenied):
            await versions.get(caller, "lake", ["ns"], "p", 0)
    reader = user_with(Action.READ_POLICY)
    assert len((await versions.list(reader, "lake", ["ns"], "p")).items) == 1
    with pytest.raises(NoSuchPolicy):
        await versions.list(reader, "lake", ["ns"], "none")

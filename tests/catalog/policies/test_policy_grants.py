"""Policies and grants: the privileges that each operation requires on the policy and its target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog.policies.attachments import TargetName
from lakebed.core.errors import AccessDenied, NoSuchPolicy
from lakebed.governance.rbac import INCLUDES, Privilege
from lakebed.governance.rbac.securables import entry_key, policy_key
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness
from tests.catalog.test_catalog_grants import holding, key_of

from .policy_catalog import CATALOG, NS, TABLE, PolicyHarness, wire_policies

P = Privilege

Operation = Callable[[PolicyHarness, Caller], Awaitable[object]]

ON_POLICY: dict[str, tuple[Privilege, Operation]] = {
    "load": (P.POLICY_READ, lambda policing, caller: policing.get(caller=caller)),
    "update": (P.POLICY_WRITE, lambda policing, caller: policing.update(caller=caller)),
    "drop": (P.POLICY_DROP, lambda policing, caller: policing.drop(caller=caller)),
}


@pytest.mark.parametrize("operation", ON_POLICY)
async def test_operation_requires_its_privilege_on_the_policy_or_an_ancestor(
    light_catalog: CatalogHarness, operation: str
) -> None:
    needed, run = ON_POLICY[operation]
    policing = wire_policies(light_catalog)
    made, other = await policing.create(), await policing.create("other")
    others = [each for each in Privilege if needed not in INCLUDES[each]]
    for caller in (
        holding(*((policy_key(made.id), each) for each in others)),
        holding(*((policy_key(other.id), each) for each in Privilege)),
        holding((await key_of(light_catalog, "ns1"), P.CATALOG_MANAGE_METADATA)),
    ):
        with pytest.raises(AccessDenied):
            await run(policing, caller)
    await run(policing, holding((policy_key(made.id), needed)))


async def test_creating_and_listing_policies_requires_namespace_privileges(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    key = await key_of(light_catalog, "ns")
    with pytest.raises(AccessDenied):
        await policing.create(caller=holding((key, P.POLICY_WRITE)))
    await policing.create(caller=holding((key, P.POLICY_CREATE)))
    found = await policing.policies.list(holding((key, P.POLICY_LIST)), "lake", ["ns"], after="", limit=9)
    assert found.names == ["p"]
    with pytest.raises(NoSuchPolicy):
        await policing.get("ghost", caller=holding((key, P.POLICY_READ)))
    with pytest.raises(AccessDenied):
        await policing.get("ghost", caller=holding((key, P.POLICY_LIST)))


@pytest.mark.parametrize(
    ("target", "attaches", "detaches"),
    [
        (CATALOG, P.CATALOG_ATTACH_POLICY, P.CATALOG_DETACH_POLICY),
        (NS, P.NAMESPACE_ATTACH_POLICY, P.NAMESPACE_DETACH_POLICY),
        (TABLE, P.TABLE_ATTACH_POLICY, P.TABLE_DETACH_POLICY),
    ],
)
async def test_attaching_requires_privileges_on_policy_and_target(
    light_catalog: CatalogHarness, target: TargetName, attaches: Privilege, detaches: Privilege
) -> None:
    policing = wire_policies(light_catalog)
    entry = (await light_catalog.create("t")).entry
    made = await policing.create()
    place = entry_key(entry.id) if target.name else await key_of(light_catalog, *target.namespace)
    key = policy_key(made.id)
    for run, on_policy, on_target in (
        (policing.attach, P.POLICY_ATTACH, attaches),
        (policing.detach, P.POLICY_DETACH, detaches),
    ):
        everything = list(Privilege)
        for caller in (
            holding((key, on_policy)),
            holding((place, on_target)),
            holding((key, on_policy), *((place, each) for each in everything if on_target not in INCLUDES[each])),
            holding((place, on_target), *((key, each) for each in everything if on_policy not in INCLUDES[each])),
        ):
            with pytest.raises(AccessDenied):
                await run(target=target, caller=caller)
        await run(target=target, caller=holding((key, on_policy), (place, on_target)))


async def test_applicable_policies_require_privileges_on_the_target(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    entry = (await light_catalog.create("t")).entry
    await policing.create()
    await policing.attach()
    lake, ns = await key_of(light_catalog), await key_of(light_catalog, "ns")
    for target, key, privilege in (
        (CATALOG, lake, P.CATALOG_READ_PROPERTIES),
        (NS, ns, P.NAMESPACE_READ_PROPERTIES),
        (TABLE, entry_key(entry.id), P.TABLE_READ_PROPERTIES),
    ):
        await policing.attachments.applicable(holding((key, privilege)), "lake", target)
        others = holding(*((key, each) for each in Privilege if privilege not in INCLUDES[each]))
        with pytest.raises(AccessDenied):
            await policing.attachments.applicable(others, "lake", target)

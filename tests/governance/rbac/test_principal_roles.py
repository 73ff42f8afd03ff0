from __future__ import annotations

import pytest

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidName,
    NoSuchPrincipal,
    PreconditionFailed,
)
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import SERVICE

from .world import World


async def test_created_role_is_found_and_listed(world: World) -> None:
    made = await world.principal_roles.create(world.by, "engineer", properties={"team": "data"})
    assert (made.name, made.properties, made.version, made.federated) == ("engineer", {"team": "data"}, 1, False)
    assert made.created_ms == made.updated_ms == world.clock.now_ms()
    assert await world.principal_roles.get(world.by, "engineer") == made
    assert [role.name for role in await world.principal_roles.list(world.by)] == ["engineer", "service_admin"]


async def test_second_role_of_a_name_is_refused(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    with pytest.raises(AlreadyExists):
        await world.principal_roles.create(world.by, "engineer", properties={"other": "one"})
    assert (await world.principal_roles.get(world.by, "engineer")).properties == {}


async def test_name_and_properties_follow_the_rules(light_world: World) -> None:
    with pytest.raises(InvalidName):
        await light_world.principal_roles.create(light_world.by, "a/b", properties={})
    with pytest.raises(InvalidInput):
        await light_world.principal_roles.create(light_world.by, "engineer", properties={"": "x"})


async def test_update_replaces_properties_and_counts_the_version(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={"a": "1"})
    world.clock.advance(1)
    changed = await world.principal_roles.update(world.by, "engineer", properties={"b": "2"}, version=1)
    assert (changed.properties, changed.version) == ({"b": "2"}, 2)
    assert changed.updated_ms == world.clock.now_ms() > changed.created_ms
    assert await world.principal_roles.get(world.by, "engineer") == changed
    with pytest.raises(PreconditionFailed):
        await world.principal_roles.update(world.by, "engineer", properties={}, version=1)
    assert await world.principal_roles.get(world.by, "engineer") == changed


async def test_role_is_given_and_taken_away(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    before = await world.number()
    await world.principal_roles.assign(world.by, "ann", "engineer")
    assert await world.number() == before + 1
    assert [role.name for role in await world.principal_roles.of_principal(world.by, "ann")] == ["engineer"]
    assert [user.name for user in await world.principals.holders(world.by, "engineer")] == ["ann"]
    # Again: nothing changes, and nothing is told.
    await world.principal_roles.assign(world.by, "ann", "engineer")
    assert await world.number() == before + 1
    await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert await world.number() == before + 2
    assert await world.principal_roles.of_principal(world.by, "ann") == []
    with pytest.raises(NoSuchPrincipal, match="does not have this role"):
        await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert [kind for kind, event in await world.told() if event.user == "ann"] == [
        "PrincipalRoleAssigned",
        "PrincipalRoleRevoked",
    ]


async def test_root_administers_the_service_from_the_beginning(world: World) -> None:
    assert [role.name for role in await world.principal_roles.of_principal(world.by, "root")] == ["service_admin"]
    assert [user.name for user in await world.principals.holders(world.by, "service_admin")] == ["root"]
    await world.users.create_user("ann")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    await world.users.create_user("zoe")
    await world.principal_roles.assign(world.by, "zoe", "service_admin")
    assert [user.name for user in await world.principals.holders(world.by, "service_admin")] == ["ann", "root", "zoe"]


async def test_role_that_administers_the_service_stays(world: World) -> None:
    with pytest.raises(InvalidInput, match="cannot be deleted"):
        await world.principal_roles.delete(world.by, "service_admin")


async def test_deleted_role_is_lost_by_all_who_had_it(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.principal_roles.assign(world.by, "ann", "engineer")
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    before = await world.number()
    await world.principal_roles.delete(world.by, "engineer")
    assert await world.number() == before + 1
    assert await world.principal_roles.of_principal(world.by, "ann") == []
    assert await world.catalog_roles.holders(world.by, "lake", "reader") == []
    assert [kind for kind, _ in await world.told()][-3:] == [
        "PrincipalRoleRevoked",
        "CatalogRoleRevoked",
        "PrincipalRoleDeleted",
    ]
    # A role of the same name is another one.
    await world.principal_roles.create(world.by, "engineer", properties={})
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_deleted_user_leaves_no_role_to_its_successor(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.principal_roles.assign(world.by, "ann", "engineer")
    before = await world.number()
    await world.users.delete_user("ann")
    assert await world.number() == before + 1
    assert [(kind, event.user) for kind, event in await world.told()][-1] == ("PrincipalRoleRevoked", "ann")
    await world.users.create_user("ann")
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_nobody_is_given_a_role_of_which_a_provider_says_who_has_it(world: World) -> None:
    await world.users.create_user("ann")
    made = await world.principal_roles.create(world.by, "guests", properties={}, federated=True)
    assert made.federated
    with pytest.raises(InvalidInput, match="provider"):
        await world.principal_roles.assign(world.by, "ann", "guests")


async def test_what_is_not_there_is_said_not_to_be(light_world: World) -> None:
    world = light_world
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    roles = world.principal_roles
    for asked in (
        roles.get(world.by, "ghost"),
        roles.update(world.by, "ghost", properties={}, version=1),
        roles.delete(world.by, "ghost"),
        roles.assign(world.by, "ann", "ghost"),
        roles.assign(world.by, "ghost", "engineer"),
        roles.revoke(world.by, "ann", "ghost"),
        roles.revoke(world.by, "ghost", "engineer"),
        roles.of_principal(world.by, "ghost"),
        world.principals.holders(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await asked


async def test_every_use_case_asks_first_and_of_the_service(light_world: World) -> None:
    world = light_world
    world.questions.refuses = lambda action: True
    roles = world.principal_roles
    for action, asked in {
        "CreatePrincipalRole": roles.create(world.by, "a/b", properties={}),
        "ListPrincipalRoles": roles.list(world.by),
        "GetPrincipalRole": roles.get(world.by, "ghost"),
        "UpdatePrincipalRole": roles.update(world.by, "ghost", properties={"": ""}, version=1),
        "DeletePrincipalRole": roles.delete(world.by, "service_admin"),
        "AssignPrincipalRole": roles.assign(world.by, "ghost", "ghost"),
        "RevokePrincipalRole": roles.revoke(world.by, "ghost", "ghost"),
        "ListPrincipalRolesAssigned": roles.of_principal(world.by, "ghost"),
        "ListAssigneePrincipalsForPrincipalRole": world.principals.holders(world.by, "ghost"),
    }.items():
        with pytest.raises(AccessDenied):
            await asked
        named, resource, securable, privileges = world.questions.asked[-1]
        assert (named, resource, securable) == (f"lakebed:{action}", "*", SERVICE)
        assert privileges


async def test_revoking_asks_about_the_role_and_about_who_loses_it(light_world: World) -> None:
    await light_world.users.create_user("ann")
    await light_world.principal_roles.assign(light_world.by, "ann", "service_admin")
    light_world.questions.asked.clear()
    await light_world.principal_roles.revoke(light_world.by, "ann", "service_admin")
    assert [privileges for *_, privileges in light_world.questions.asked] == [
        (Privilege.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE,),
        (Privilege.PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE,),
    ]

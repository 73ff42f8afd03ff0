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


async def test_created_role_can_be_read_and_listed(world: World) -> None:
    created = await world.principal_roles.create(world.by, "engineer", properties={"team": "data"})
    assert (created.name, created.properties, created.version, created.federated) == (
        "engineer",
        {"team": "data"},
        1,
        False,
    )
    assert created.created_ms == created.updated_ms == world.clock.now_ms()
    assert await world.principal_roles.get(world.by, "engineer") == created
    assert [role.name for role in await world.principal_roles.list(world.by)] == ["engineer", "service_admin"]


async def test_duplicate_role_name_is_refused(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    with pytest.raises(AlreadyExists):
        await world.principal_roles.create(world.by, "engineer", properties={"other": "one"})
    assert (await world.principal_roles.get(world.by, "engineer")).properties == {}


async def test_invalid_names_and_properties_are_refused(sqlite_world: World) -> None:
    with pytest.raises(InvalidName):
        await sqlite_world.principal_roles.create(sqlite_world.by, "a/b", properties={})
    with pytest.raises(InvalidInput):
        await sqlite_world.principal_roles.create(sqlite_world.by, "engineer", properties={"": "x"})


async def test_update_replaces_properties_and_increments_the_version(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={"a": "1"})
    world.clock.advance(1)
    changed = await world.principal_roles.update(world.by, "engineer", properties={"b": "2"}, version=1)
    assert (changed.properties, changed.version) == ({"b": "2"}, 2)
    assert changed.updated_ms == world.clock.now_ms() > changed.created_ms
    assert await world.principal_roles.get(world.by, "engineer") == changed
    with pytest.raises(PreconditionFailed):
        await world.principal_roles.update(world.by, "engineer", properties={}, version=1)
    assert await world.principal_roles.get(world.by, "engineer") == changed


async def test_role_can_be_assigned_and_revoked(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    before = await world.number()
    await world.principal_roles.assign(world.by, "ann", "engineer")
    assert await world.number() == before + 1
    assert [role.name for role in await world.principal_roles.of_principal(world.by, "ann")] == ["engineer"]
    assert [user.name for user in await world.principals.assignees(world.by, "engineer")] == ["ann"]
    # Repeated: no change and no event.
    await world.principal_roles.assign(world.by, "ann", "engineer")
    assert await world.number() == before + 1
    await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert await world.number() == before + 2
    assert await world.principal_roles.of_principal(world.by, "ann") == []
    with pytest.raises(NoSuchPrincipal, match="does not have this role"):
        await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert [kind for kind, event in await world.events() if event.user == "ann"] == [
        "PrincipalRoleAssigned",
        "PrincipalRoleRevoked",
    ]


async def test_root_has_service_admin_initially(world: World) -> None:
    assert [role.name for role in await world.principal_roles.of_principal(world.by, "root")] == ["service_admin"]
    assert [user.name for user in await world.principals.assignees(world.by, "service_admin")] == ["root"]
    await world.users.create_user("ann")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    await world.users.create_user("zoe")
    await world.principal_roles.assign(world.by, "zoe", "service_admin")
    assert [user.name for user in await world.principals.assignees(world.by, "service_admin")] == ["ann", "root", "zoe"]


async def test_service_admin_cannot_be_deleted(world: World) -> None:
    with pytest.raises(InvalidInput, match="cannot be deleted"):
        await world.principal_roles.delete(world.by, "service_admin")


async def test_deleting_a_role_revokes_it_from_all_members(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.principal_roles.assign(world.by, "ann", "engineer")
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    before = await world.number()
    await world.principal_roles.delete(world.by, "engineer")
    assert await world.number() == before + 1
    assert await world.principal_roles.of_principal(world.by, "ann") == []
    assert await world.catalog_roles.assignees(world.by, "lake", "reader") == []
    assert [kind for kind, _ in await world.events()][-3:] == [
        "PrincipalRoleRevoked",
        "CatalogRoleRevoked",
        "PrincipalRoleDeleted",
    ]
    # A recreated role has no members.
    await world.principal_roles.create(world.by, "engineer", properties={})
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_recreated_user_does_not_inherit_roles(world: World) -> None:
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.principal_roles.assign(world.by, "ann", "engineer")
    before = await world.number()
    await world.users.delete_user("ann")
    assert await world.number() == before + 1
    assert [(kind, event.user) for kind, event in await world.events()][-1] == ("PrincipalRoleRevoked", "ann")
    await world.users.create_user("ann")
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_federated_role_cannot_be_assigned(world: World) -> None:
    await world.users.create_user("ann")
    created = await world.principal_roles.create(world.by, "guests", properties={}, federated=True)
    assert created.federated
    with pytest.raises(InvalidInput, match="provider"):
        await world.principal_roles.assign(world.by, "ann", "guests")


async def test_unknown_roles_and_principals_raise_no_such_principal(sqlite_world: World) -> None:
    world = sqlite_world
    await world.users.create_user("ann")
    await world.principal_roles.create(world.by, "engineer", properties={})
    roles = world.principal_roles
    for call in (
        roles.get(world.by, "ghost"),
        roles.update(world.by, "ghost", properties={}, version=1),
        roles.delete(world.by, "ghost"),
        roles.assign(world.by, "ann", "ghost"),
        roles.assign(world.by, "ghost", "engineer"),
        roles.revoke(world.by, "ann", "ghost"),
        roles.revoke(world.by, "ghost", "engineer"),
        roles.of_principal(world.by, "ghost"),
        world.principals.assignees(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await call


async def test_every_operation_is_authorized_first_on_the_service(sqlite_world: World) -> None:
    world = sqlite_world
    world.authorizer.refuses = lambda action: True
    roles = world.principal_roles
    for action, call in {
        "CreatePrincipalRole": roles.create(world.by, "a/b", properties={}),
        "ListPrincipalRoles": roles.list(world.by),
        "GetPrincipalRole": roles.get(world.by, "ghost"),
        "UpdatePrincipalRole": roles.update(world.by, "ghost", properties={"": ""}, version=1),
        "DeletePrincipalRole": roles.delete(world.by, "service_admin"),
        "AssignPrincipalRole": roles.assign(world.by, "ghost", "ghost"),
        "RevokePrincipalRole": roles.revoke(world.by, "ghost", "ghost"),
        "ListPrincipalRolesAssigned": roles.of_principal(world.by, "ghost"),
        "ListAssigneePrincipalsForPrincipalRole": world.principals.assignees(world.by, "ghost"),
    }.items():
        with pytest.raises(AccessDenied):
            await call
        named, resource, securable, privileges = world.authorizer.requests[-1]
        assert (named, resource, securable) == (f"lakebed:{action}", "*", SERVICE)
        assert privileges


async def test_revocation_is_authorized_on_role_and_principal(sqlite_world: World) -> None:
    await sqlite_world.users.create_user("ann")
    await sqlite_world.principal_roles.assign(sqlite_world.by, "ann", "service_admin")
    sqlite_world.authorizer.requests.clear()
    await sqlite_world.principal_roles.revoke(sqlite_world.by, "ann", "service_admin")
    assert [privileges for *_, privileges in sqlite_world.authorizer.requests] == [
        (Privilege.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE,),
        (Privilege.PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE,),
    ]

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists, NotFound
from lakebed.governance.rbac.events import RoleEvent
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.meta.migrations import migrate
from lakebed.meta.outbox import Outbox
from lakebed.meta.sqlite.store import SqliteStore

from .conftest import filled
from .world import World

P = Privilege

Step: TypeAlias = Callable[[World], Awaitable[object]]

users = st.sampled_from(["ann", "bob"])
roles = st.sampled_from(["engineer", "analyst"])
catalogs = st.sampled_from(["lake", "pond"])
catalog_roles = st.sampled_from(["reader", "writer"])
grants = st.sampled_from(
    [
        (GrantTarget(GrantKind.CATALOG), P.TABLE_LIST),
        (GrantTarget(GrantKind.NAMESPACE, ("a",)), P.TABLE_LIST),
        (GrantTarget(GrantKind.TABLE, ("a", "b"), "t"), P.TABLE_LIST),
        (GrantTarget(GrantKind.TABLE, ("a", "b"), "t"), P.TABLE_READ_DATA),
    ]
)

steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda name: lambda w: w.principal_roles.create(w.by, name, properties={}), roles),
    st.builds(lambda name: lambda w: w.principal_roles.delete(w.by, name), roles),
    st.builds(lambda user, role: lambda w: w.principal_roles.assign(w.by, user, role), users, roles),
    st.builds(lambda user, role: lambda w: w.principal_roles.revoke(w.by, user, role), users, roles),
    st.builds(lambda user: lambda w: w.users.create_user(user), users),
    st.builds(lambda user: lambda w: w.principals.delete(w.by, user), users),
    st.builds(lambda c, name: lambda w: w.catalog_roles.create(w.by, c, name, properties={}), catalogs, catalog_roles),
    st.builds(lambda c, name: lambda w: w.catalog_roles.delete(w.by, c, name), catalogs, catalog_roles),
    st.builds(lambda r, c, name: lambda w: w.catalog_roles.assign(w.by, r, c, name), roles, catalogs, catalog_roles),
    st.builds(lambda r, c, name: lambda w: w.catalog_roles.revoke(w.by, r, c, name), roles, catalogs, catalog_roles),
    st.builds(lambda name, grant: lambda w: w.catalog_grants.add(w.by, "lake", name, *grant), catalog_roles, grants),
    st.builds(
        lambda name, grant, deep: lambda w: w.catalog_grants.revoke(w.by, "lake", name, *grant, cascade=deep),
        catalog_roles,
        grants,
        st.booleans(),
    ),
)


Known: TypeAlias = tuple[str, ...]


class Followed:
    """What somebody believes who has read nothing but events, from the first on."""

    def __init__(self) -> None:
        # These come with the schema.
        self.roles: set[Known] = {("service_admin",)}
        self.members: set[Known] = {("root", "service_admin")}
        self.catalog_roles: set[Known] = set()
        self.assigned: set[Known] = set()
        self.grants: set[Known] = set()

    def hear(self, kind: str, event: RoleEvent) -> None:
        known, what = self._about(kind, event)
        is_gone = kind.endswith(("Revoked", "Deleted"))
        # What comes was not there, and what goes was.
        assert (what in known) is is_gone
        if is_gone:
            known.remove(what)
        else:
            known.add(what)

    def _about(self, kind: str, event: RoleEvent) -> tuple[set[Known], Known]:
        if kind.startswith("PrincipalRole"):
            return (self.members, (event.user, event.role)) if event.user else (self.roles, (event.role,))
        if kind.startswith("Grant"):
            return self.grants, (event.catalog, event.role, event.securable, event.privilege)
        if event.principal_role:
            return self.assigned, (event.principal_role, event.catalog, event.role)
        return self.catalog_roles, (event.catalog, event.role)


async def check_followed(world: World) -> None:
    followed = Followed()
    for kind, event in await world.told():
        followed.hear(kind, event)
    store = world.store
    assert followed.roles == set(await store.rows("SELECT name FROM principal_roles"))
    members = "SELECT m.principal, r.name FROM principal_role_members m JOIN principal_roles r ON r.id = m.role"
    assert followed.members == set(await store.rows(members))
    of_catalogs = "SELECT b.name, r.name FROM catalog_roles r JOIN warehouses b ON b.id = r.catalog"
    assert followed.catalog_roles == set(await store.rows(of_catalogs))
    assigned = (
        "SELECT p.name, b.name, r.name FROM catalog_role_members m JOIN principal_roles p ON p.id = m.principal_role"
        " JOIN catalog_roles r ON r.id = m.catalog_role JOIN warehouses b ON b.id = r.catalog"
    )
    assert followed.assigned == set(await store.rows(assigned))
    held = {
        (catalog, role, str(grant.target), grant.privilege.name)
        for catalog, role in followed.catalog_roles
        for grant in await world.catalog_grants.list(world.by, catalog, role)
    }
    assert followed.grants == held


@pytest.mark.slow
@settings(max_examples=60)
@given(taken=st.lists(steps, min_size=4, max_size=30))
def test_whoever_follows_the_events_knows_what_the_tables_hold(taken: list[Step]) -> None:
    async def follow() -> None:
        store = await SqliteStore.temporary()
        try:
            await migrate(store)
            world = await filled(World(store, ManualClock(), Outbox(store)))
            # Something to change from the first step on, or most steps would find nothing.
            await world.users.create_user("ann")
            await world.principal_roles.create(world.by, "engineer", properties={})
            await world.catalog_roles.create(world.by, "lake", "reader", properties={})
            for step in taken:
                before, told = await world.number(), len(await world.told())
                try:
                    await step(world)
                except (NotFound, AlreadyExists):
                    assert (await world.number(), len(await world.told())) == (before, told)
            await check_followed(world)
        finally:
            await store.close()

    asyncio.run(follow())


async def test_events_say_who_made_the_change(light_world: World) -> None:
    await light_world.principal_roles.create(light_world.by, "engineer", properties={})
    await light_world.principal_roles.update(light_world.by, "engineer", properties={"a": "b"}, version=1)
    await light_world.catalog_roles.create(light_world.by, "lake", "reader", properties={})
    await light_world.catalog_roles.update(light_world.by, "lake", "reader", properties={"a": "b"}, version=1)
    told = (await light_world.told())[-4:]
    assert [kind for kind, _ in told] == [
        "PrincipalRoleCreated",
        "PrincipalRoleConfigured",
        "CatalogRoleCreated",
        "CatalogRoleConfigured",
    ]
    assert {(event.principal, event.account) for _, event in told} == {("root", light_world.by.principal.account)}

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


Row: TypeAlias = tuple[str, ...]


class Replay:
    """Roles, assignments and grants reconstructed from events."""

    def __init__(self) -> None:
        # Created by the schema.
        self.roles: set[Row] = {("service_admin",)}
        self.members: set[Row] = {("root", "service_admin")}
        self.catalog_roles: set[Row] = set()
        self.assigned: set[Row] = set()
        self.grants: set[Row] = set()

    def apply(self, kind: str, event: RoleEvent) -> None:
        rows, row = self._row(kind, event)
        is_removed = kind.endswith(("Revoked", "Deleted"))
        # Created rows did not exist, and removed rows did.
        assert (row in rows) is is_removed
        if is_removed:
            rows.remove(row)
        else:
            rows.add(row)

    def _row(self, kind: str, event: RoleEvent) -> tuple[set[Row], Row]:
        if kind.startswith("PrincipalRole"):
            return (self.members, (event.user, event.role)) if event.user else (self.roles, (event.role,))
        if kind.startswith("Grant"):
            return self.grants, (event.catalog, event.role, event.securable, event.privilege)
        if event.principal_role:
            return self.assigned, (event.principal_role, event.catalog, event.role)
        return self.catalog_roles, (event.catalog, event.role)


async def check_replay(world: World) -> None:
    replay = Replay()
    for kind, event in await world.events():
        replay.apply(kind, event)
    store = world.store
    assert replay.roles == set(await store.rows("SELECT name FROM principal_roles"))
    members = "SELECT m.principal, r.name FROM principal_role_members m JOIN principal_roles r ON r.id = m.role"
    assert replay.members == set(await store.rows(members))
    of_catalogs = "SELECT b.name, r.name FROM catalog_roles r JOIN warehouses b ON b.id = r.catalog"
    assert replay.catalog_roles == set(await store.rows(of_catalogs))
    assigned = (
        "SELECT p.name, b.name, r.name FROM catalog_role_members m JOIN principal_roles p ON p.id = m.principal_role"
        " JOIN catalog_roles r ON r.id = m.catalog_role JOIN warehouses b ON b.id = r.catalog"
    )
    assert replay.assigned == set(await store.rows(assigned))
    granted = {
        (catalog, role, str(grant.target), grant.privilege.name)
        for catalog, role in replay.catalog_roles
        for grant in await world.catalog_grants.list(world.by, catalog, role)
    }
    assert replay.grants == granted


@pytest.mark.slow
@settings(max_examples=60)
@given(taken=st.lists(steps, min_size=4, max_size=30))
def test_replaying_the_events_reproduces_the_tables(taken: list[Step]) -> None:
    async def run() -> None:
        store = await SqliteStore.temporary()
        try:
            await migrate(store)
            world = await filled(World(store, ManualClock(), Outbox(store)))
            # Start with data, so that most steps change something.
            await world.users.create_user("ann")
            await world.principal_roles.create(world.by, "engineer", properties={})
            await world.catalog_roles.create(world.by, "lake", "reader", properties={})
            for step in taken:
                before, events = await world.number(), len(await world.events())
                try:
                    await step(world)
                except (NotFound, AlreadyExists):
                    assert (await world.number(), len(await world.events())) == (before, events)
            await check_replay(world)
        finally:
            await store.close()

    asyncio.run(run())


async def test_events_contain_the_caller(sqlite_world: World) -> None:
    await sqlite_world.principal_roles.create(sqlite_world.by, "engineer", properties={})
    await sqlite_world.principal_roles.update(sqlite_world.by, "engineer", properties={"a": "b"}, version=1)
    await sqlite_world.catalog_roles.create(sqlite_world.by, "lake", "reader", properties={})
    await sqlite_world.catalog_roles.update(sqlite_world.by, "lake", "reader", properties={"a": "b"}, version=1)
    events = (await sqlite_world.events())[-4:]
    assert [kind for kind, _ in events] == [
        "PrincipalRoleCreated",
        "PrincipalRoleConfigured",
        "CatalogRoleCreated",
        "CatalogRoleConfigured",
    ]
    assert {(event.principal, event.account) for _, event in events} == {("root", sqlite_world.by.principal.account)}

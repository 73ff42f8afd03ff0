from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lakebed.core.access import Principal
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidName,
    NoSuchPrincipal,
    PreconditionFailed,
)
from lakebed.core.secrets import Secret
from lakebed.governance.events import IdentityEvent
from lakebed.governance.rbac.privileges import Privilege
from tests.governance.documents import OWNER

from .world import ROOT, World


async def test_created_principal_is_a_user_with_client_credentials(world: World) -> None:
    created = await world.principals.create(world.by, "ann", properties={"team": "data"})
    user = await world.users.user("ann")
    assert (user.account, user.enabled) == (OWNER, True)
    principal = created.principal
    assert (principal.name, principal.properties, principal.version) == ("ann", {"team": "data"}, 1)
    assert principal.created_ms == principal.updated_ms == world.clock.now_ms()
    assert principal.client_id == created.credentials.client_id
    assert created.credentials.secret.reveal()
    assert await world.principals.get(world.by, "ann") == principal
    with pytest.raises(AlreadyExists):
        await world.principals.create(world.by, "ann", properties={})


async def test_list_includes_root(world: World) -> None:
    await world.principals.create(world.by, "zoe", properties={})
    await world.users.create_user("bob")
    listed = await world.principals.list(world.by)
    assert [principal.name for principal in listed] == ["bob", "root", "zoe"]
    assert [principal.client_id is None for principal in listed] == [True, False, False]
    root = await world.principals.get(world.by, "root")
    assert (root, root.client_id, root.created_ms) == (listed[1], "ROOTKEY", None)


async def test_properties_are_replaced_if_the_version_matches(world: World) -> None:
    await world.users.create_user("ann")
    world.clock.advance(1)
    changed = await world.principals.update(world.by, "ann", properties={"a": "1"}, version=1)
    assert (changed.properties, changed.version, changed.updated_ms) == ({"a": "1"}, 2, world.clock.now_ms())
    assert await world.principals.get(world.by, "ann") == changed
    with pytest.raises(PreconditionFailed):
        await world.principals.update(world.by, "ann", properties={}, version=1)


async def test_deleting_a_user_deletes_its_keys_credentials_and_roles(world: World) -> None:
    created = await world.principals.create(world.by, "ann", properties={"a": "1"})
    await world.access_keys.create("ann")
    await world.users.attach_canned("ann", "readonly")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    await world.principals.delete(world.by, "ann")
    for table in ("access_keys", "principal_policies"):
        assert await world.store.rows(f"SELECT principal FROM {table}") == []
    assert await world.store.rows("SELECT client_id FROM client_credentials") == []
    again = await world.principals.create(world.by, "ann", properties={})
    assert again.principal.properties == {}
    assert again.credentials.client_id != created.credentials.client_id
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_events_contain_the_caller(world: World) -> None:
    boss = world.administrator(Principal("boss", OWNER, f"arn:aws:iam::{OWNER}:user/boss", user_id="B"))
    await world.principals.create(boss, "ann", properties={})
    await world.principals.update(boss, "ann", properties={}, version=1)
    await world.principals.rotate(boss, "ann")
    await world.principals.delete(boss, "ann")
    entries = await world.outbox.read_after(world.store, 0, 1000)
    of_user = [entry.event for entry in entries if entry.event.kind.startswith(("User", "Client"))]
    assert [event.kind for event in of_user] == [
        "UserCreated",
        "ClientCredentialsCreated",
        "UserConfigured",
        "ClientCredentialsRotated",
        "UserDeleted",
    ]
    assert {msgspec.msgpack.decode(event.payload, type=IdentityEvent).principal for event in of_user} == {"boss"}


async def test_root_cannot_be_changed(sqlite_world: World) -> None:
    world = sqlite_world
    for call in (
        world.principals.update(world.by, "root", properties={}, version=1),
        world.principals.delete(world.by, "root"),
        world.principals.rotate(world.by, "root"),
        world.principals.reset(world.by, "root"),
    ):
        with pytest.raises(InvalidInput, match="settings"):
            await call
    with pytest.raises(InvalidName):
        await world.principals.create(world.by, "root", properties={})


async def test_unknown_principal_raises_no_such_principal(sqlite_world: World) -> None:
    world = sqlite_world
    for call in (
        world.principals.get(world.by, "ghost"),
        world.principals.update(world.by, "ghost", properties={}, version=1),
        world.principals.delete(world.by, "ghost"),
        world.principals.rotate(world.by, "ghost"),
        world.principals.reset(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await call


async def test_every_operation_is_authorized_first(sqlite_world: World) -> None:
    world = sqlite_world
    world.authorizer.refuses = lambda action: True
    for action, call in {
        "CreatePrincipal": world.principals.create(world.by, "a/b", properties={}),
        "ListPrincipals": world.principals.list(world.by),
        "GetPrincipal": world.principals.get(world.by, "ghost"),
        "UpdatePrincipal": world.principals.update(world.by, "root", properties={}, version=1),
        "DeletePrincipal": world.principals.delete(world.by, "root"),
        "RotateCredentials": world.principals.rotate(world.by, "root"),
        "ResetCredentials": world.principals.reset(world.by, "root"),
    }.items():
        with pytest.raises(AccessDenied):
            await call
        assert world.authorizer.requests[-1][0] == f"lakebed:{action}"


async def test_user_can_rotate_its_own_credentials_without_a_privilege(world: World) -> None:
    created = await world.principals.create(world.by, "ann", properties={})
    user = await world.users.user("ann")
    herself = Principal("ann", OWNER, user.arn, user_id=user.user_id)
    world.authorizer.refuses = lambda action: True
    rotated = await world.principals.rotate(world.administrator(herself), "ann")
    assert rotated.credentials.client_id == created.credentials.client_id
    assert rotated.credentials.secret != created.credentials.secret
    # Not the credentials of others, nor those of a recreated user with her name.
    await world.users.create_user("bob")
    with pytest.raises(AccessDenied):
        await world.principals.rotate(world.administrator(herself), "bob")
    with pytest.raises(AccessDenied, match="was deleted"):
        await world.principals.rotate(world.administrator(replace(herself, user_id="another")), "ann")


async def test_rotating_others_credentials_requires_its_own_privilege(sqlite_world: World) -> None:
    await sqlite_world.principals.create(sqlite_world.by, "ann", properties={})
    sqlite_world.authorizer.requests.clear()
    await sqlite_world.principals.rotate(sqlite_world.by, "ann")
    assert [privileges for *_, privileges in sqlite_world.authorizer.requests] == [
        (Privilege.PRINCIPAL_ROTATE_CREDENTIALS,)
    ]


async def test_only_root_can_reset_credentials(world: World) -> None:
    created = await world.principals.create(world.by, "ann", properties={})
    chosen = await world.principals.reset(world.by, "ann", client_id="chosen-by-root", secret=Secret("chosen-secret"))
    assert chosen.principal.client_id == chosen.credentials.client_id == "chosen-by-root"
    assert chosen.credentials.secret == Secret("chosen-secret")
    assert created.credentials.secret != chosen.credentials.secret
    boss = Principal("boss", OWNER, f"arn:aws:iam::{OWNER}:user/boss", user_id="B")
    with pytest.raises(AccessDenied, match="only root"):
        await world.principals.reset(world.administrator(boss), "ann")
    # Root in a session with activated roles is not root.
    with pytest.raises(AccessDenied, match="only root"):
        await world.principals.reset(world.administrator(replace(ROOT, is_root=False)), "ann")


async def test_rotation_without_credentials_is_refused(world: World) -> None:
    await world.users.create_user("ann")
    with pytest.raises(InvalidInput, match="no client credentials"):
        await world.principals.rotate(world.by, "ann")

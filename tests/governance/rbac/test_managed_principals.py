from __future__ import annotations

from dataclasses import replace

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
from lakebed.governance.events import decode_event
from lakebed.governance.rbac.privileges import Privilege
from tests.governance.documents import OWNER

from .world import ROOT, World


async def test_created_user_is_a_user_like_any_other_and_has_credentials(world: World) -> None:
    made = await world.principals.create(world.by, "ann", properties={"team": "data"})
    user = await world.users.user("ann")
    assert (user.account, user.enabled) == (OWNER, True)
    principal = made.principal
    assert (principal.name, principal.properties, principal.version) == ("ann", {"team": "data"}, 1)
    assert principal.created_ms == principal.updated_ms == world.clock.now_ms()
    assert principal.client_id == made.credentials.client_id
    assert made.credentials.secret.reveal()
    assert await world.principals.get(world.by, "ann") == principal
    with pytest.raises(AlreadyExists):
        await world.principals.create(world.by, "ann", properties={})


async def test_users_are_listed_with_root_among_them(world: World) -> None:
    await world.principals.create(world.by, "zoe", properties={})
    await world.users.create_user("bob")
    listed = await world.principals.list(world.by)
    assert [principal.name for principal in listed] == ["bob", "root", "zoe"]
    assert [principal.client_id is None for principal in listed] == [True, False, False]
    root = await world.principals.get(world.by, "root")
    assert (root, root.client_id, root.created_ms) == (listed[1], "ROOTKEY", None)


async def test_properties_are_replaced_at_the_version_that_is_there(world: World) -> None:
    await world.users.create_user("ann")
    world.clock.advance(1)
    changed = await world.principals.update(world.by, "ann", properties={"a": "1"}, version=1)
    assert (changed.properties, changed.version, changed.updated_ms) == ({"a": "1"}, 2, world.clock.now_ms())
    assert await world.principals.get(world.by, "ann") == changed
    with pytest.raises(PreconditionFailed):
        await world.principals.update(world.by, "ann", properties={}, version=1)


async def test_deleted_user_leaves_nothing(world: World) -> None:
    made = await world.principals.create(world.by, "ann", properties={"a": "1"})
    await world.access_keys.create("ann")
    await world.users.attach_canned("ann", "readonly")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    await world.principals.delete(world.by, "ann")
    for table in ("access_keys", "principal_policies"):
        assert await world.store.rows(f"SELECT principal FROM {table}") == []
    assert await world.store.rows("SELECT client_id FROM client_credentials") == []
    again = await world.principals.create(world.by, "ann", properties={})
    assert again.principal.properties == {}
    assert again.credentials.client_id != made.credentials.client_id
    assert await world.principal_roles.of_principal(world.by, "ann") == []


async def test_who_made_a_change_is_told(world: World) -> None:
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
    assert {decode_event(event.payload).principal for event in of_user} == {"boss"}


async def test_root_is_of_the_settings(light_world: World) -> None:
    world = light_world
    for asked in (
        world.principals.update(world.by, "root", properties={}, version=1),
        world.principals.delete(world.by, "root"),
        world.principals.rotate(world.by, "root"),
        world.principals.reset(world.by, "root"),
    ):
        with pytest.raises(InvalidInput, match="settings"):
            await asked
    with pytest.raises(InvalidName):
        await world.principals.create(world.by, "root", properties={})


async def test_who_is_not_there_is_said_not_to_be(light_world: World) -> None:
    world = light_world
    for asked in (
        world.principals.get(world.by, "ghost"),
        world.principals.update(world.by, "ghost", properties={}, version=1),
        world.principals.delete(world.by, "ghost"),
        world.principals.rotate(world.by, "ghost"),
        world.principals.reset(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await asked


async def test_every_use_case_asks_first(light_world: World) -> None:
    world = light_world
    world.questions.refuses = lambda action: True
    for action, asked in {
        "CreatePrincipal": world.principals.create(world.by, "a/b", properties={}),
        "ListPrincipals": world.principals.list(world.by),
        "GetPrincipal": world.principals.get(world.by, "ghost"),
        "UpdatePrincipal": world.principals.update(world.by, "root", properties={}, version=1),
        "DeletePrincipal": world.principals.delete(world.by, "root"),
        "RotateCredentials": world.principals.rotate(world.by, "root"),
        "ResetCredentials": world.principals.reset(world.by, "root"),
    }.items():
        with pytest.raises(AccessDenied):
            await asked
        assert world.questions.asked[-1][0] == f"lakebed:{action}"


async def test_user_rotates_its_own_credentials_without_being_asked(world: World) -> None:
    made = await world.principals.create(world.by, "ann", properties={})
    user = await world.users.user("ann")
    herself = Principal("ann", OWNER, user.arn, user_id=user.user_id)
    world.questions.refuses = lambda action: True
    rotated = await world.principals.rotate(world.administrator(herself), "ann")
    assert rotated.credentials.client_id == made.credentials.client_id
    assert rotated.credentials.secret != made.credentials.secret
    # Neither those of others, nor those of a user who has her name by now.
    await world.users.create_user("bob")
    with pytest.raises(AccessDenied):
        await world.principals.rotate(world.administrator(herself), "bob")
    with pytest.raises(AccessDenied, match="was deleted"):
        await world.principals.rotate(world.administrator(replace(herself, user_id="another")), "ann")


async def test_rotation_of_others_takes_a_privilege_that_comes_with_nothing(light_world: World) -> None:
    await light_world.principals.create(light_world.by, "ann", properties={})
    light_world.questions.asked.clear()
    await light_world.principals.rotate(light_world.by, "ann")
    assert [privileges for *_, privileges in light_world.questions.asked] == [(Privilege.PRINCIPAL_ROTATE_CREDENTIALS,)]


async def test_credentials_are_reset_by_root_alone(world: World) -> None:
    made = await world.principals.create(world.by, "ann", properties={})
    chosen = await world.principals.reset(world.by, "ann", client_id="chosen-by-root", secret=Secret("chosen-secret"))
    assert chosen.principal.client_id == chosen.credentials.client_id == "chosen-by-root"
    assert chosen.credentials.secret == Secret("chosen-secret")
    assert made.credentials.secret != chosen.credentials.secret
    boss = Principal("boss", OWNER, f"arn:aws:iam::{OWNER}:user/boss", user_id="B")
    with pytest.raises(AccessDenied, match="only root"):
        await world.principals.reset(world.administrator(boss), "ann")
    # Root with fewer rights than root's is not root either.
    with pytest.raises(AccessDenied, match="only root"):
        await world.principals.reset(world.administrator(replace(ROOT, is_root=False)), "ann")


async def test_user_without_credentials_has_none_to_rotate(world: World) -> None:
    await world.users.create_user("ann")
    with pytest.raises(InvalidInput, match="no client credentials"):
        await world.principals.rotate(world.by, "ann")

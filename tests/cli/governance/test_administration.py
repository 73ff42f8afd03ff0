from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from lakebed.core.access import DEFAULT_ACCOUNT, Credential
from lakebed.core.clock import SystemClock
from lakebed.core.errors import Unauthenticated
from lakebed.core.settings import ServerSettings, Settings
from lakebed.governance import AccessKeys, MasterKeys
from lakebed.meta.outbox import Outbox
from lakebed.server.stores.identity import SECRETS_FILE, establish_identity, require_identity, root_credential
from lakebed.server.stores.metadata import open_metadata
from tests.cli.conftest import Lakebed, Outcome

pytestmark = pytest.mark.slow  # each command opens the store and waits for the disk

Admin = Callable[..., Outcome]


@pytest.fixture
def admin(lakebed: Lakebed, data: Path) -> Admin:
    """Run an administration command on the data folder, printing JSON."""

    def run(*words: str) -> Outcome:
        return lakebed(*words, "--data", str(data), "--json")

    return run


def lookup(data: Path, access_key: str) -> Credential:
    """The credential that a server on the same folder finds."""

    async def find() -> Credential:
        settings = Settings(server=ServerSettings(data=data))
        identity = require_identity(settings)
        keys = MasterKeys(identity.master_keys, identity.active_key_id)
        store = await open_metadata(settings, keys)
        try:
            root = root_credential(identity)
            return await AccessKeys(store, Outbox(store), keys, SystemClock(), root).lookup(access_key)
        finally:
            await store.close()

    return asyncio.run(find())


def test_created_key_works_at_the_server_with_the_user_policies(admin: Admin, data: Path) -> None:
    assert admin("user", "create", "ann", "--policy", "readonly").document == {
        "user": "ann",
        "arn": f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann",
    }
    made = admin("key", "create", "ann").document
    found = lookup(data, made["access_key"])
    assert found.secret.reveal() == made["secret_key"]
    assert found.principal.name == "ann"
    assert len(found.principal.policies) == 1


def test_rotated_key_has_a_new_secret(admin: Admin, data: Path) -> None:
    admin("user", "create", "ann")
    first = admin("key", "create", "ann").document
    second = admin("key", "rotate", first["access_key"]).document
    assert second["access_key"] == first["access_key"]
    assert second["secret_key"] != first["secret_key"]
    assert lookup(data, first["access_key"]).secret.reveal() == second["secret_key"]


def test_disabled_key_is_rejected_until_enabled(admin: Admin, data: Path) -> None:
    admin("user", "create", "ann")
    key = admin("key", "create", "ann").document["access_key"]
    assert admin("key", "disable", key).document == {"access_key": key, "state": "disabled"}
    assert [row["state"] for row in admin("key", "list", "ann").document] == ["disabled"]
    with pytest.raises(Unauthenticated):
        lookup(data, key)
    admin("key", "enable", key)
    assert lookup(data, key).access_key_id == key


def test_deleted_key_does_not_exist(admin: Admin) -> None:
    admin("user", "create", "ann")
    key = admin("key", "create", "ann").document["access_key"]
    assert admin("key", "delete", key).status == 0
    assert admin("key", "list", "ann").document == []


def test_key_can_expire(admin: Admin) -> None:
    admin("user", "create", "ann")
    assert admin("key", "create", "ann").document["expires"] == "never"
    assert admin("key", "create", "ann", "--expires", "90d").document["expires"].endswith("Z")
    assert admin("key", "create", "ann", "--expires", "a while").err.startswith("lakebed: expected a duration")


def test_users_are_listed_disabled_and_removed(admin: Admin, data: Path) -> None:
    for name in ("bob", "ann"):
        admin("user", "create", name, "--account", "123456789012")
    key = admin("key", "create", "bob").document["access_key"]
    admin("user", "disable", "bob")
    states = {row["name"]: (row["account"], row["state"]) for row in admin("user", "list").document}
    assert states == {"ann": ("123456789012", "enabled"), "bob": ("123456789012", "disabled")}
    with pytest.raises(Unauthenticated):
        lookup(data, key)
    admin("user", "enable", "bob")
    assert lookup(data, key).principal.name == "bob"
    admin("user", "delete", "bob")
    assert [row["name"] for row in admin("user", "list").document] == ["ann"]
    with pytest.raises(Unauthenticated):
        lookup(data, key)


def test_policies_are_attached_and_detached(admin: Admin, tmp_path: Path) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
    (tmp_path / "own.json").write_text(json.dumps(document))
    admin("user", "create", "ann")
    admin("policy", "attach", "ann", "readwrite")
    assert admin("policy", "put", "ann", "own", "own.json").document["state"] == "attached"
    rows = {row["policy"]: row["kind"] for row in admin("policy", "list", "ann").document}
    assert rows == {"readwrite": "canned", "own": "own"}
    assert admin("policy", "show", "ann", "own").document == document
    admin("policy", "detach", "ann", "own")
    admin("policy", "detach", "ann", "readwrite")
    assert admin("policy", "list", "ann").document == []


def test_canned_policies_are_listed(admin: Admin) -> None:
    assert {"policy": "readonly", "kind": "canned"} in admin("policy", "list").document


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("user", "disable", "unknown"), "lakebed: no such user. name=unknown. List users: lakebed user list"),
        (("key", "create", "unknown"), "lakebed: no such user. name=unknown"),
        (("key", "list", "unknown"), "lakebed: no such user. name=unknown"),
        (("key", "rotate", "LKBDNONE"), "lakebed: no such access key. access_key_id=LKBDNONE"),
        (("user", "create", "root"), "lakebed: the name is reserved. name=root"),
        (("user", "create", "ann", "--policy", "nothing"), "lakebed: no such canned policy. policy=nothing"),
        (("policy", "put", "ann", "own", "absent.json"), "lakebed: policy file cannot be read. path=absent.json"),
        (("policy", "show", "ann", "own"), "lakebed: no such user. name=ann"),
    ],
)
def test_failed_command_prints_one_line(admin: Admin, words: tuple[str, ...], message: str) -> None:
    outcome = admin(*words)
    assert outcome.status == FAILED
    assert outcome.out == ""
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1


def test_missing_policy_of_a_user_is_named(admin: Admin) -> None:
    admin("user", "create", "ann")
    assert admin("policy", "show", "ann", "own").err.startswith("lakebed: user has no such policy")


def test_default_output_is_text(lakebed: Lakebed, data: Path) -> None:
    outcome = lakebed("user", "create", "ann", "--data", str(data))
    assert outcome.out == f"user  ann\narn   arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann\n"


def test_regenerated_secrets_are_rejected_on_existing_data(admin: Admin, data: Path) -> None:
    admin("user", "create", "ann")
    lost = require_identity(Settings(server=ServerSettings(data=data))).active_key_id
    (data / SECRETS_FILE).rename(data / "backup")
    establish_identity(Settings(server=ServerSettings(data=data)))
    outcome = admin("key", "create", "ann")
    assert outcome.status == FAILED
    assert outcome.err.startswith("lakebed: encryption.keys: stored data needs master keys that are not configured")
    assert f"missing={lost}" in outcome.err
    assert outcome.err.count("\n") == 1
    (data / "backup").rename(data / SECRETS_FILE)
    assert admin("key", "list", "ann").document == []


def test_commands_create_no_data_folder(lakebed: Lakebed, tmp_path: Path) -> None:
    outcome = lakebed("user", "list", "--data", str(tmp_path / "absent"))
    assert outcome.status == FAILED
    assert "not the data folder of a server" in outcome.err
    assert not (tmp_path / "absent").exists()

from __future__ import annotations

import base64
import json
import multiprocessing
import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.core.settings import EncryptionSettings, RootSettings, ServerSettings, Settings
from lakebed.server.stores.identity import SECRETS_FILE, Identity, establish_identity, root_credential

OWN_KEY = bytes(range(32))
OWN_KEY_TEXT = Secret(base64.b64encode(OWN_KEY).decode())


def settings_for(
    data: Path, *, root: RootSettings | None = None, keys: dict[str, Secret] | None = None, active: str = ""
) -> Settings:
    return Settings(
        server=ServerSettings(data=data),
        root=root or RootSettings(),
        encryption=EncryptionSettings(keys=keys or {}, active=active),
    )


def start(data: Path) -> Identity:
    return establish_identity(settings_for(data))


def test_first_start_creates_secrets_that_only_their_owner_can_read(tmp_path: Path) -> None:
    identity = start(tmp_path / "new" / "data")
    assert identity.secrets_path == tmp_path / "new" / "data" / SECRETS_FILE
    assert stat.S_IMODE(identity.secrets_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(identity.secrets_path.parent.stat().st_mode) == 0o700
    assert identity.root_is_generated
    assert len(identity.root_secret_key.reveal()) == 40
    assert len(identity.master_keys[identity.active_key_id]) == 32


@pytest.mark.parametrize("below", ["", "below/it"])
def test_a_file_in_place_of_the_data_folder_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InvalidSetting) as refused:
        start(file / below)
    assert str(refused.value) == (
        f"server.data: expected a folder, found a file; name another one with --data. path={file}"
    )


def test_later_starts_use_the_secrets_of_the_first(tmp_path: Path) -> None:
    assert start(tmp_path) == start(tmp_path)


def test_two_folders_share_no_secret(tmp_path: Path) -> None:
    one, other = start(tmp_path / "one"), start(tmp_path / "other")
    assert one.root_access_key != other.root_access_key
    assert one.root_secret_key != other.root_secret_key
    assert one.active_key_id != other.active_key_id
    assert set(one.master_keys.values()).isdisjoint(other.master_keys.values())


@pytest.mark.slow
def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        identities = list(pool.map(start, [tmp_path / "data"] * 16))
    assert all(identity == identities[0] for identity in identities)
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == [SECRETS_FILE]


def test_concurrent_first_starts_use_the_secrets_that_were_written_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(tmp_path / "first")

    def link_after_another_process(source: Path, target: Path) -> None:
        target.write_bytes((tmp_path / "first" / SECRETS_FILE).read_bytes())
        target.chmod(0o600)
        raise FileExistsError

    monkeypatch.setattr("os.link", link_after_another_process)
    second = start(tmp_path / "second")
    assert second.root_secret_key == first.root_secret_key
    assert [entry.name for entry in (tmp_path / "second").iterdir()] == [SECRETS_FILE]


def test_settings_override_the_generated_root_credential(tmp_path: Path) -> None:
    identity = establish_identity(settings_for(tmp_path, root=RootSettings("admin", Secret("long-enough"))))
    assert (identity.root_access_key, identity.root_secret_key) == ("admin", Secret("long-enough"))
    assert not identity.root_is_generated
    assert identity.active_key_id.startswith("generated-")


def test_root_authenticates_with_the_key_of_the_identity(tmp_path: Path) -> None:
    identity = start(tmp_path)
    root = root_credential(identity)
    assert (root.access_key_id, root.secret) == (identity.root_access_key, identity.root_secret_key)
    assert root.principal.is_root
    assert root.principal.key is not None
    assert root.principal.key.id == identity.root_access_key


def test_no_secrets_file_is_written_when_settings_have_all_secrets(tmp_path: Path) -> None:
    given = settings_for(
        tmp_path / "data", root=RootSettings("admin", Secret("long-enough")), keys={"own": OWN_KEY_TEXT}
    )
    identity = establish_identity(given)
    assert identity.master_keys == {"own": OWN_KEY}
    assert identity.active_key_id == "own"
    assert identity.secrets_path is None
    assert not (tmp_path / "data").exists()


def test_a_generated_master_key_stays_readable_beside_keys_of_the_settings(tmp_path: Path) -> None:
    before = start(tmp_path)
    after = establish_identity(settings_for(tmp_path, keys={"own": OWN_KEY_TEXT}))
    assert after.active_key_id == "own"
    assert after.master_keys == {"own": OWN_KEY, **before.master_keys}


def test_secrets_readable_by_others_are_refused_with_the_remedy(tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / SECRETS_FILE).chmod(0o640)
    with pytest.raises(InvalidSetting, match=r"chmod 600 .*secrets\.json"):
        start(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: json.dumps({**json.loads(text), "format": 2}),
        lambda text: json.dumps({**json.loads(text), "master_key": base64.b64encode(b"short").decode()}),
        lambda text: json.dumps({**json.loads(text), "extra": 1}),
        lambda text: json.dumps({"format": 1}),
    ],
)
def test_damaged_secrets_are_not_regenerated(tmp_path: Path, change: object) -> None:
    start(tmp_path)
    path = tmp_path / SECRETS_FILE
    assert callable(change)
    path.write_text(change(path.read_text()))
    damaged = path.read_bytes()
    with pytest.raises(Corrupted, match="restore it from a backup"):
        start(tmp_path)
    assert path.read_bytes() == damaged


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"^server\.data: cannot write the folder\. path=/proc/.* reason="):
        start(Path("/proc/no-such-folder"))


def test_an_identity_does_not_show_its_secrets(tmp_path: Path) -> None:
    identity = start(tmp_path)
    shown = repr(identity)
    assert identity.root_secret_key.reveal() not in shown
    assert repr(identity.master_keys[identity.active_key_id]) not in shown

"""Generates root credentials and the master key at the first start, and stores them in the data folder.

Invariant: servers that start concurrently on one folder use the same secrets. The file is published atomically (`link`
fails for the second one), and every server uses the published file.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from lakebed.core.access import DEFAULT_ACCOUNT, Credential, root_of
from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.core.ids import new_access_key_id, new_secret_key
from lakebed.core.secrets import Secret
from lakebed.core.settings import Settings, active_master_key, decode_master_key

from .data_lock import found_a_file

SECRETS_FILE: Final = "secrets.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Root credentials and master keys."""

    root_access_key: str
    root_secret_key: Secret
    active_key_id: str
    """The master key for new objects."""

    master_keys: Mapping[str, bytes] = field(repr=False)
    """Every master key by id, 32 bytes each. Objects reference the key that was active when they were written."""

    secrets_path: Path | None = None
    """The file of generated secrets; None if the settings have all secrets and there is no file."""

    root_is_generated: bool = False
    """Whether the root credentials come from the file instead of the settings."""


class _StoredSecrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: a version, then the secrets."""

    format: int
    root_access_key: str
    root_secret_key: str
    master_key_id: str
    master_key: bytes  # base64 in JSON

    def __repr__(self) -> str:
        return "_StoredSecrets(***)"


def establish_identity(settings: Settings) -> Identity:
    """The secrets of the settings, else those of the data folder, generated if absent.

    Raises Corrupted for a damaged file, InvalidSetting if other users can read it or the folder is unusable.
    """
    identity = find_identity(settings)
    if identity is None:
        _create(settings.server.data / SECRETS_FILE, _generate())
        identity = require_identity(settings)
    return identity


def require_identity(settings: Settings) -> Identity:
    """The secrets of a server that was started before. Raises InvalidSetting if there are none, and as above."""
    identity = find_identity(settings)
    if identity is None:
        folder = settings.server.data.absolute()
        raise InvalidSetting(
            "server.data: not the data folder of a server; name your server's folder with --data, or start a server:"
            f" lakebed serve --data {folder}"
        )
    return identity


def find_identity(settings: Settings) -> Identity | None:
    """The secrets of the settings and the data folder together, or None if any is missing.

    A generated master key stays readable if the settings have keys, because objects may need it.
    """
    path = settings.server.data / SECRETS_FILE
    stored = _read(path)
    access_key, secret_key = settings.root.access_key, settings.root.secret_key
    keys = settings.encryption.keys
    master_keys = {key_id: decode_master_key(key_id, key) for key_id, key in keys.items()}
    active = active_master_key(settings.encryption)
    if stored is not None:
        master_keys.setdefault(stored.master_key_id, stored.master_key)
        active = active or stored.master_key_id
        if access_key is None:
            access_key, secret_key = stored.root_access_key, Secret(stored.root_secret_key)
    if access_key is None or secret_key is None or not active:
        return None
    return Identity(
        root_access_key=access_key,
        root_secret_key=secret_key,
        active_key_id=active,
        master_keys=master_keys,
        secrets_path=path if stored is not None else None,
        root_is_generated=settings.root.access_key is None,
    )


def root_credential(identity: Identity) -> Credential:
    """Root of the server's own account, with its key."""
    root = root_of(DEFAULT_ACCOUNT, identity.root_access_key)
    return Credential(identity.root_access_key, identity.root_secret_key, root)


def _generate() -> _StoredSecrets:
    return _StoredSecrets(
        format=_FORMAT,
        root_access_key=new_access_key_id(),
        root_secret_key=new_secret_key(),
        master_key_id=f"generated-{secrets.token_hex(4)}",
        master_key=secrets.token_bytes(32),
    )


def _read(path: Path) -> _StoredSecrets | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise found_a_file(path) from error
    except OSError as error:
        raise InvalidSetting(f"server.data: cannot read the secrets. path={path} reason={error.strerror}") from error
    with open(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidSetting(f"server.data: other users can read the secrets file; run: chmod 600 {path}")
        text = file.read()
    damage: str | None = None
    try:
        stored = msgspec.json.decode(text, type=_StoredSecrets)
    except (msgspec.DecodeError, UnicodeDecodeError):
        damage = "not valid JSON of its format"
    else:
        if stored.format != _FORMAT:
            damage = f"format {stored.format}, expected {_FORMAT}"
        elif len(stored.master_key) != 32:
            damage = "the master key is not 32 bytes"
    if damage is not None:
        # Raised outside `except`: the decoder's error may quote the text. Never regenerated: objects encrypted with the
        # lost key would be lost.
        raise Corrupted(f"secrets file is damaged: {damage}; restore it from a backup. path={path}")
    return stored


def _create(path: Path, fresh: _StoredSecrets) -> None:
    """Publish `fresh` under `path` unless the file exists."""
    folder = path.parent
    draft = folder / f".{SECRETS_FILE}.{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(fresh), indent=2) + b"\n")
                file.flush()
                os.fsync(descriptor)
            try:
                os.link(draft, path)
            except FileExistsError:
                return  # another server was first: its secrets count
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(folder)
    except OSError as error:
        raise InvalidSetting(f"server.data: cannot write the folder. path={folder} reason={error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Users and access keys: values, and the rules of their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.core.secrets import Secret

TEMPORARY_KEY_PREFIX: Final = "LKBT"
"""How the ids of temporary keys begin. No lasting key begins so."""

_NAME: Final = re.compile(r"[A-Za-z0-9+=,.@_-]{1,128}")
_RESERVED: Final = frozenset({"root", "anonymous"})
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{3,128}")
_SECRET: Final = re.compile(r"[!-~]{8,128}")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may hold access keys."""

    name: str
    user_id: str
    account: str
    enabled: bool
    created_ms: int

    @property
    def arn(self) -> str:
        """The user as policies name it."""
        return user_arn(self.account, self.name)


@dataclass(frozen=True, slots=True)
class UserPolicy:
    """A policy of a user: its own document, or a canned one by name."""

    name: str
    is_canned: bool
    document: bytes


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A lasting key, without its secret."""

    id: str
    user: str
    enabled: bool
    created_ms: int
    rotated_ms: int
    """When the secret was last made."""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NewAccessKey:
    """A key just made or rotated: the only time that its secret is shown."""

    key: AccessKey
    secret: Secret


def user_arn(account: str, name: str) -> str:
    """A user as policies name it."""
    return f"arn:aws:iam::{account}:user/{name}"


def check_user_name(name: str) -> None:
    """Raise InvalidName unless a user may be called so."""
    if not _NAME.fullmatch(name):
        raise InvalidName("a user name has 1 to 128 letters, digits or +=,.@_-", argument="name", value=name)
    if name.lower() in _RESERVED:
        raise InvalidName(f"the name is reserved. name={name}", argument="name", value=name)


def check_policy_name(name: str) -> None:
    """Raise InvalidName unless a policy may be called so."""
    if not _NAME.fullmatch(name):
        raise InvalidName("a policy name has 1 to 128 letters, digits or +=,.@_-", argument="policy", value=name)


def check_account(account: str) -> None:
    """Raise InvalidName unless it is an account id."""
    if not _ACCOUNT.fullmatch(account):
        raise InvalidName("an account id has 12 digits", argument="account", value=account)


def is_key_id(text: str) -> bool:
    """Whether a key, lasting or temporary, could have this id."""
    return _KEY_ID.fullmatch(text) is not None


def check_key_id(key_id: str) -> None:
    """Raise InvalidName unless a lasting key may have this id."""
    if not is_key_id(key_id):
        raise InvalidName("an access key id has 3 to 128 letters, digits or _.-", argument="access_key_id")
    if key_id.startswith(TEMPORARY_KEY_PREFIX):
        raise InvalidName(
            f"ids of temporary keys begin so. prefix={TEMPORARY_KEY_PREFIX}", argument="access_key_id", value=key_id
        )


def check_secret(secret: Secret) -> None:
    """Raise InvalidInput unless it can be a secret key. The text is not told."""
    if not _SECRET.fullmatch(secret.reveal()):
        raise InvalidInput("a secret key has 8 to 128 visible ASCII characters", argument="secret_key")

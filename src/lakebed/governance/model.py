"""Users, policies and access keys, and their name rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.core.secrets import Secret

TEMPORARY_KEY_PREFIX: Final = "LKBT"
"""Prefix of temporary access key ids; reserved."""

_NAME: Final = re.compile(r"[A-Za-z0-9+=,.@_-]{1,128}")
_RESERVED: Final = frozenset({"root", "anonymous"})
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{3,128}")
_SECRET: Final = re.compile(r"[!-~]{8,128}")


@dataclass(frozen=True, slots=True)
class User:
    """An IAM user, who can have access keys."""

    name: str
    user_id: str
    account: str
    enabled: bool
    created_ms: int

    @property
    def arn(self) -> str:
        """The user's ARN."""
        return user_arn(self.account, self.name)


@dataclass(frozen=True, slots=True)
class UserPolicy:
    """A policy of a user: inline, or a canned policy."""

    name: str
    is_canned: bool
    document: bytes


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A long-lived access key, without its secret."""

    id: str
    user: str
    enabled: bool
    created_ms: int
    rotated_ms: int
    """Creation time of the current secret."""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NewAccessKey:
    """A created or rotated key with its secret, which is returned only once."""

    key: AccessKey
    secret: Secret


def user_arn(account: str, name: str) -> str:
    """The ARN of a user."""
    return f"arn:aws:iam::{account}:user/{name}"


def check_user_name(name: str) -> None:
    """Raise InvalidName unless the name is valid for a user."""
    if not _NAME.fullmatch(name):
        raise InvalidName("a user name has 1 to 128 letters, digits or +=,.@_-", argument="name", value=name)
    if name.lower() in _RESERVED:
        raise InvalidName(f"the name is reserved. name={name}", argument="name", value=name)


def check_policy_name(name: str) -> None:
    """Raise InvalidName unless the name is valid for a policy."""
    if not _NAME.fullmatch(name):
        raise InvalidName("a policy name has 1 to 128 letters, digits or +=,.@_-", argument="policy", value=name)


def check_account(account: str) -> None:
    """Raise InvalidName unless the text is an account id."""
    if not _ACCOUNT.fullmatch(account):
        raise InvalidName("an account id has 12 digits", argument="account", value=account)


def is_key_id(text: str) -> bool:
    """Whether the text can be an access key id."""
    return _KEY_ID.fullmatch(text) is not None


def check_key_id(key_id: str) -> None:
    """Raise InvalidName unless the id is valid for a long-lived key."""
    if not is_key_id(key_id):
        raise InvalidName("an access key id has 3 to 128 letters, digits or _.-", argument="access_key_id")
    if key_id.startswith(TEMPORARY_KEY_PREFIX):
        raise InvalidName(
            f"this prefix is reserved for temporary keys. prefix={TEMPORARY_KEY_PREFIX}",
            argument="access_key_id",
            value=key_id,
        )


def check_secret(secret: Secret) -> None:
    """Raise InvalidInput unless the secret is valid. The error does not contain it."""
    if not _SECRET.fullmatch(secret.reveal()):
        raise InvalidInput("a secret key has 8 to 128 visible ASCII characters", argument="secret_key")

"""Credentials in the settings."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InvalidSetting
from ...core.secrets import Secret
from .model import Credentials


def check_key_pair(access_key_id: str | None, secret_access_key: Secret | None) -> None:
    """Raise InvalidSetting, with the missing key's name, unless both or neither are set."""
    if access_key_id and not secret_access_key:
        raise InvalidSetting("secret_access_key: missing, but access_key_id is set", argument="secret_access_key")
    if secret_access_key and not access_key_id:
        raise InvalidSetting("access_key_id: missing, but secret_access_key is set", argument="access_key_id")


@dataclass(frozen=True, slots=True)
class InlineSource:
    """Applies if a key id or a secret is set."""

    access_key_id: str | None
    secret_access_key: Secret | None
    session_token: Secret | None = None

    name = "inline"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """The configured keys."""
        check_key_pair(self.access_key_id, self.secret_access_key)
        if not self.access_key_id or not self.secret_access_key:
            return None
        return Credentials(self.access_key_id, self.secret_access_key, self.session_token or None, source=self.name)

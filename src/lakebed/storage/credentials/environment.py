"""Credentials from `AWS_ACCESS_KEY_ID` and related environment variables."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InvalidSetting
from ...core.secrets import Secret
from .host_environment import HostEnvironment
from .model import Credentials, parse_expiry


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """Applies if `AWS_ACCESS_KEY_ID` is not empty. Refreshed before `AWS_CREDENTIAL_EXPIRATION`, if set."""

    host_environment: HostEnvironment

    name = "environment"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """The current values of the variables."""
        value = self.host_environment.value
        key_id = value("AWS_ACCESS_KEY_ID")
        if not key_id:
            return None
        secret = value("AWS_SECRET_ACCESS_KEY")
        if not secret:
            raise InvalidSetting("AWS_SECRET_ACCESS_KEY: missing, but AWS_ACCESS_KEY_ID is set")
        token = value("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
        expiry = value("AWS_CREDENTIAL_EXPIRATION")
        return Credentials(
            key_id,
            Secret(secret),
            Secret(token) if token else None,
            parse_expiry(expiry, self.name) if expiry else None,
            source=self.name,
        )

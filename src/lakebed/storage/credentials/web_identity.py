"""Credentials for a Kubernetes service account token (IRSA), exchanged at STS."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InvalidSetting, Unauthenticated
from ...core.secrets import Secret
from .host_environment import HostEnvironment
from .model import Credentials
from .sts import AssumedRole, TokenService


@dataclass(frozen=True, slots=True)
class WebIdentitySource:
    """Applies if `AWS_WEB_IDENTITY_TOKEN_FILE` is set; requires `AWS_ROLE_ARN`."""

    host_environment: HostEnvironment
    region: str | None = None

    name = "web identity"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """Credentials for the current content of the token file, which is rotated."""
        value = self.host_environment.value
        path = value("AWS_WEB_IDENTITY_TOKEN_FILE")
        if not path:
            return None
        role = value("AWS_ROLE_ARN")
        if not role:
            raise InvalidSetting("AWS_ROLE_ARN: missing, but AWS_WEB_IDENTITY_TOKEN_FILE is set")
        session = value("AWS_ROLE_SESSION_NAME") or default_session_name(self.host_environment)
        return await exchange_token_file(
            self.host_environment, path, AssumedRole(role, session), self.region, self.name
        )


async def exchange_token_file(
    host_environment: HostEnvironment, path: str, role: AssumedRole, region: str | None, source: str
) -> Credentials:
    """Credentials of `role` for the token in the file. Raises Unauthenticated if there is none."""
    token = (await host_environment.read_file(path) or "").strip()
    if not token:
        raise Unauthenticated(f"web identity token file does not exist or is empty. path={path}")
    service = TokenService(
        host_environment, region or (host_environment.value("AWS_REGION", "AWS_DEFAULT_REGION") or None)
    )
    return await service.assume_role_with_web_identity(Secret(token), role, source)


def default_session_name(host_environment: HostEnvironment) -> str:
    """A default session name for the audit log of AWS."""
    return f"lakebed-{host_environment.clock.now_ms()}"

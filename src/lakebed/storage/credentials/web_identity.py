"""Keys for a pod with a service account token (IRSA): the token file is traded at STS."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InvalidSetting, Unauthenticated
from ...core.secrets import Secret
from .host_environment import HostEnvironment
from .model import Credentials
from .sts import AssumedRole, TokenService


@dataclass(frozen=True, slots=True)
class WebIdentitySource:
    """Applies when `AWS_WEB_IDENTITY_TOKEN_FILE` is set; needs `AWS_ROLE_ARN`."""

    host_environment: HostEnvironment
    region: str | None = None

    name = "web identity"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """Keys for the token that is in the file now: it is replaced while we run."""
        value = self.host_environment.value
        path = value("AWS_WEB_IDENTITY_TOKEN_FILE")
        if not path:
            return None
        role = value("AWS_ROLE_ARN")
        if not role:
            raise InvalidSetting("AWS_ROLE_ARN: missing, while AWS_WEB_IDENTITY_TOKEN_FILE is set")
        session = value("AWS_ROLE_SESSION_NAME") or default_session_name(self.host_environment)
        return await trade_token_file(self.host_environment, path, AssumedRole(role, session), self.region, self.name)


async def trade_token_file(
    host_environment: HostEnvironment, path: str, role: AssumedRole, region: str | None, source: str
) -> Credentials:
    """Keys of `role` for the token in the file. Raises Unauthenticated if there is none."""
    token = (await host_environment.read_file(path) or "").strip()
    if not token:
        raise Unauthenticated(f"web identity token file is absent or empty. path={path}")
    service = TokenService(
        host_environment, region or (host_environment.value("AWS_REGION", "AWS_DEFAULT_REGION") or None)
    )
    return await service.assume_role_with_web_identity(Secret(token), role, source)


def default_session_name(host_environment: HostEnvironment) -> str:
    """A session name for the audit trail of the other side, when none was chosen."""
    return f"lakebed-{host_environment.clock.now_ms()}"

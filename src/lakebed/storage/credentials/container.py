"""Credentials from the agent of a container platform: ECS tasks and EKS Pod Identity."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from lakebed.net.http import HttpRequest, send_with_retries

from ...core.errors import InvalidSetting, Unauthenticated, Unavailable
from .document import credentials_of, parse_object
from .host_environment import HostEnvironment
from .model import Credentials
from .sts import is_loopback

ECS_AGENT = "http://169.254.170.2"
LINK_LOCAL_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
"""The agents of ECS and EKS: the only remote hosts that may receive the token without TLS."""

TIMEOUT_SECONDS = 2.0
TRIES = 3


@dataclass(frozen=True, slots=True)
class ContainerSource:
    """Applies when `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` or `…_FULL_URI` is set; the relative one wins."""

    host_environment: HostEnvironment

    name = "container"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """The agent's current credentials."""
        uri = self._uri()
        if uri is None:
            return None
        headers = {"accept": "application/json"}
        token = await self._authorization()
        if token:
            headers["authorization"] = token
        request = HttpRequest("GET", uri, headers, timeout_seconds=TIMEOUT_SECONDS)
        response = await send_with_retries(self.host_environment.http, request, tries=TRIES, service="container agent")
        if response.status == 200:
            return credentials_of(parse_object(response.body, self.name), self.name)
        kind = Unavailable if response.status >= 500 or response.status == 429 else Unauthenticated
        raise kind(f"container agent request failed. status={response.status}")

    def _uri(self) -> str | None:
        relative = self.host_environment.value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        if relative:
            # Without the slash, "@host/" would turn the agent's address into a user name.
            if not relative.startswith("/"):
                raise InvalidSetting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: must start with /")
            return ECS_AGENT + relative
        full = self.host_environment.value("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not full:
            return None
        if not may_receive_token(full):
            raise InvalidSetting(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or http to a loopback address or to "
                + ", ".join(sorted(LINK_LOCAL_HOSTS))
            )
        return full

    async def _authorization(self) -> str:
        path = self.host_environment.value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if path:
            token = await self.host_environment.read_file(path)
            if token is None:
                raise Unauthenticated(f"container authorization token file does not exist. path={path}")
        else:
            token = self.host_environment.value("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if "\r" in token or "\n" in token:
            # A line break would let the token inject another header.
            raise InvalidSetting("container authorization token: must not contain line breaks")
        return token


def may_receive_token(uri: str) -> bool:
    """Whether the token may be sent to this address: over TLS, on this machine, or to a known link-local agent."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and (host in LINK_LOCAL_HOSTS or is_loopback(host))

"""Credentials of the machine's role, from the EC2 instance metadata service, version 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from lakebed.net.http import HttpRequest, HttpResponse, send_with_retries

from ...core.errors import InvalidSetting, Unauthenticated, Unavailable
from .document import credentials_of, parse_object
from .host_environment import HostEnvironment
from .model import Credentials

TOKEN_SECONDS = 21_600
ROLES_PATH = "/latest/meta-data/iam/security-credentials/"
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
ENDPOINTS: Final = {"ipv4": "http://169.254.169.254", "ipv6": "http://[fd00:ec2::254]"}


@dataclass(frozen=True, slots=True)
class InstanceMetadataSource:
    """The last source: applies unless `AWS_EC2_METADATA_DISABLED` is `true`.

    Version 1, which any server-side request forgery can read, is used only with `v1_fallback`.
    """

    host_environment: HostEnvironment
    v1_fallback: bool = False

    name = "instance metadata"
    survives_outage = True

    async def load(self) -> Credentials | None:
        """Current credentials. During an outage of the service they may be about to expire."""
        if self.host_environment.value("AWS_EC2_METADATA_DISABLED").lower() == "true":
            return None
        session = await self._session()
        role = (await self._get(ROLES_PATH, session)).decode("utf-8", "replace").partition("\n")[0].strip()
        if not role:
            raise Unauthenticated("instance metadata: the machine has no role")
        document = parse_object(await self._get(ROLES_PATH + quote(role, safe="+=,.@-_"), session), self.name)
        code = document.get("Code")
        if code is not None and code != "Success":
            raise Unavailable(f"instance metadata: request failed. code={code}")
        return credentials_of(document, self.name)

    async def _session(self) -> dict[str, str]:
        ttl = {"x-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        try:
            response = await self._send("PUT", TOKEN_PATH, ttl)
        except Unavailable as error:
            if self.v1_fallback:
                return {}
            raise Unavailable(
                "no credentials found: no other source applies and instance metadata did not respond; "
                "set keys in the settings or the environment, or set AWS_EC2_METADATA_DISABLED=true"
            ) from error
        if response.status == 200:
            token = response.body.decode("ascii", "replace")
            if not token or not token.isascii() or not token.isprintable():
                raise Unavailable("instance metadata: invalid session token")
            return {"x-aws-ec2-metadata-token": token}
        if self.v1_fallback and response.status in (403, 404, 405):
            return {}
        raise _rejected(response.status)

    async def _get(self, path: str, session: dict[str, str]) -> bytes:
        response = await self._send("GET", path, session)
        if response.status == 404:
            raise Unauthenticated("instance metadata: the machine has no role")
        if response.status != 200:
            raise _rejected(response.status)
        return response.body

    async def _send(self, method: str, path: str, headers: dict[str, str]) -> HttpResponse:
        request = HttpRequest(method, self._endpoint() + path, headers, timeout_seconds=self._number("TIMEOUT"))
        tries = max(1, round(self._number("NUM_ATTEMPTS")))
        response = await send_with_retries(self.host_environment.http, request, tries=tries, service=self.name)
        if response.status >= 500:
            raise Unavailable(f"instance metadata: failed. status={response.status}")
        return response

    def _endpoint(self) -> str:
        chosen = self.host_environment.value("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        if chosen:
            if not chosen.startswith(("http://", "https://")):
                raise InvalidSetting("AWS_EC2_METADATA_SERVICE_ENDPOINT: must be an http or https URL")
            return chosen.rstrip("/")
        mode = self.host_environment.value("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").lower() or "ipv4"
        if mode not in ENDPOINTS:
            raise InvalidSetting(f"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE: must be IPv4 or IPv6. found={mode!r}")
        return ENDPOINTS[mode]

    def _number(self, name: str) -> float:
        """`AWS_METADATA_SERVICE_TIMEOUT` in seconds, or `…_NUM_ATTEMPTS`; 1 by default."""
        text = self.host_environment.value(f"AWS_METADATA_SERVICE_{name}") or "1"
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number < 1000:
            raise InvalidSetting(f"AWS_METADATA_SERVICE_{name}: must be a positive number. found={text!r}")
        return number


def _rejected(status: int) -> Unauthenticated:
    return Unauthenticated(f"instance metadata: request rejected. status={status}")

"""Keys of the machine's own role, from the EC2 instance metadata service, version 2."""

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
    """The last resort: applies unless `AWS_EC2_METADATA_DISABLED` is `true`.

    Version 1, which any server-side request forgery can read, is spoken only when `v1_fallback` says so.
    """

    host_environment: HostEnvironment
    v1_fallback: bool = False

    name = "instance metadata"
    survives_outage = True

    async def load(self) -> Credentials | None:
        """What the service hands out now, which near an outage of its own may be keys about to end."""
        if self.host_environment.value("AWS_EC2_METADATA_DISABLED").lower() == "true":
            return None
        session = await self._session()
        role = (await self._get(ROLES_PATH, session)).decode("utf-8", "replace").partition("\n")[0].strip()
        if not role:
            raise Unauthenticated("instance metadata: the machine has no role")
        document = parse_object(await self._get(ROLES_PATH + quote(role, safe="+=,.@-_"), session), self.name)
        code = document.get("Code")
        if code is not None and code != "Success":
            raise Unavailable("instance metadata: the answer is not a success")
        return credentials_of(document, self.name)

    async def _session(self) -> dict[str, str]:
        ttl = {"x-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        try:
            answer = await self._send("PUT", TOKEN_PATH, ttl)
        except Unavailable as error:
            if self.v1_fallback:
                return {}
            raise Unavailable(
                "no source of credentials: nothing else applies and instance metadata did not answer; "
                "give keys in the settings or the environment, or set AWS_EC2_METADATA_DISABLED=true"
            ) from error
        if answer.status == 200:
            token = answer.body.decode("ascii", "replace")
            if not token or not token.isascii() or not token.isprintable():
                raise Unavailable("instance metadata: the session token is not one")
            return {"x-aws-ec2-metadata-token": token}
        if self.v1_fallback and answer.status in (403, 404, 405):
            return {}
        raise _refused(answer.status)

    async def _get(self, path: str, session: dict[str, str]) -> bytes:
        answer = await self._send("GET", path, session)
        if answer.status == 404:
            raise Unauthenticated("instance metadata: the machine has no role")
        if answer.status != 200:
            raise _refused(answer.status)
        return answer.body

    async def _send(self, method: str, path: str, headers: dict[str, str]) -> HttpResponse:
        request = HttpRequest(method, self._endpoint() + path, headers, timeout_seconds=self._number("TIMEOUT"))
        tries = max(1, round(self._number("NUM_ATTEMPTS")))
        answer = await send_with_retries(self.host_environment.http, request, tries=tries, service=self.name)
        if answer.status >= 500:
            raise Unavailable(f"instance metadata: failed. status={answer.status}")
        return answer

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
        """`AWS_METADATA_SERVICE_TIMEOUT` in seconds or `…_NUM_ATTEMPTS`: one of each unless told."""
        text = self.host_environment.value(f"AWS_METADATA_SERVICE_{name}") or "1"
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number < 1000:
            raise InvalidSetting(f"AWS_METADATA_SERVICE_{name}: must be a positive number. found={text!r}")
        return number


def _refused(status: int) -> Unauthenticated:
    return Unauthenticated(f"instance metadata: refused. status={status}")

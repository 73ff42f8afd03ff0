"""Temporary credentials from AWS STS: AssumeRole and AssumeRoleWithWebIdentity."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from lakebed.net.http import HttpRequest, send_with_retries

from ...core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from ...core.secrets import Secret
from ...core.sigv4 import signed_headers
from .host_environment import HostEnvironment
from .model import Credentials, CredentialSource, parse_expiry

API_VERSION = "2011-06-15"
FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"
DURATION_SECONDS = 3600
TIMEOUT_SECONDS = 10.0
TRIES = 3

_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_ERRORS: dict[str, type[LakebedError]] = {
    "AccessDenied": AccessDenied,
    "AccessDeniedException": AccessDenied,
    "InvalidParameterValue": InvalidInput,
    "MalformedPolicyDocument": InvalidInput,
    "PackedPolicyTooLarge": InvalidInput,
    "ValidationError": InvalidInput,
    "Throttling": Throttled,
    "ThrottlingException": Throttled,
    "IDPCommunicationError": Unavailable,
    "InternalFailure": Unavailable,
    "ServiceUnavailable": Unavailable,
}


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """Parameters of the role to assume."""

    arn: str
    session_name: str
    duration_seconds: int = DURATION_SECONDS
    external_id: str | None = None
    policy: str | None = None
    """A session policy that restricts the role."""

    def fields(self) -> dict[str, str]:
        """Its form fields."""
        fields = {
            "RoleArn": self.arn,
            "RoleSessionName": self.session_name,
            "DurationSeconds": str(self.duration_seconds),
        }
        if self.external_id:
            fields["ExternalId"] = self.external_id
        if self.policy:
            fields["Policy"] = self.policy
        return fields


@dataclass(frozen=True, slots=True)
class TokenService:
    """An STS endpoint: the given one, else `AWS_ENDPOINT_URL_STS`, else the region's, else the global one."""

    host_environment: HostEnvironment
    region: str | None = None
    url: str | None = None
    """A validated endpoint."""

    async def assume_role(self, base: Credentials, role: AssumedRole, source: str) -> Credentials:
        """Credentials of `role`, requested with the `base` credentials."""
        form = _form("AssumeRole", role.fields())
        headers = signed_headers(
            "POST",
            host=urlsplit(self.endpoint).netloc,
            headers={"content-type": FORM_TYPE},
            body=form,
            region=self.region or "us-east-1",
            service="sts",
            credentials=base,
            now_ms=self.host_environment.clock.now_ms(),
        )
        return await self._send(form, headers, source)

    async def assume_role_with_web_identity(self, token: Secret, role: AssumedRole, source: str) -> Credentials:
        """Credentials of `role` for an identity provider's token. The request is unsigned."""
        form = _form("AssumeRoleWithWebIdentity", {**role.fields(), "WebIdentityToken": token.reveal()})
        return await self._send(form, {"content-type": FORM_TYPE}, source)

    @property
    def endpoint(self) -> str:
        """The endpoint URL. Raises InvalidSetting without TLS, because requests contain a bearer token."""
        if self.url is not None:
            return self.url.rstrip("/")
        configured = self.host_environment.value("AWS_ENDPOINT_URL_STS")
        if configured:
            if not _is_secure(configured):
                raise InvalidSetting("AWS_ENDPOINT_URL_STS: must be https, or http to a loopback address")
            return configured.rstrip("/")
        if self.region is None:
            return "https://sts.amazonaws.com"
        if not _REGION.fullmatch(self.region):
            raise InvalidSetting(f"region: invalid name. found={self.region!r}")
        return f"https://sts.{self.region}.{'amazonaws.com.cn' if self.region.startswith('cn-') else 'amazonaws.com'}"

    async def _send(self, form: bytes, headers: dict[str, str], source: str) -> Credentials:
        request = HttpRequest(
            "POST", self.endpoint + "/", {**headers, "accept": "application/xml"}, form, TIMEOUT_SECONDS, True
        )
        response = await send_with_retries(self.host_environment.http, request, tries=TRIES, service="token service")
        if response.status == 200:
            return parse_credentials(response.body, source)
        raise parse_error(response.status, response.body, source)


class AssumedRoleSource:
    """A role, assumed with the credentials of another source."""

    survives_outage = False

    def __init__(self, base: CredentialSource, service: TokenService, role: AssumedRole, name: str) -> None:
        self.name = name
        self._base = base
        self._service = service
        self._role = role

    async def load(self) -> Credentials | None:
        """Fresh credentials of the role; None if the other source does not apply."""
        base = await self._base.load()
        return None if base is None else await self._service.assume_role(base, self._role, self.name)


def parse_credentials(body: bytes, source: str) -> Credentials:
    """The credentials in an AssumeRole or AssumeRoleWithWebIdentity response. Raises Unavailable if incomplete."""
    found = _texts(body)
    for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"):
        if not found.get(name):
            raise Unavailable(f"token service response without {name}. source={source}")
    return Credentials(
        found["AccessKeyId"],
        Secret(found["SecretAccessKey"]),
        Secret(found["SessionToken"]),
        parse_expiry(found["Expiration"], source),
        source=source,
    )


def parse_error(status: int, body: bytes, source: str) -> LakebedError:
    """The error in a response other than 200. Its message is dropped: it may quote the token."""
    code = _texts(body).get("Code", "")
    kind = _ERRORS.get(code)
    if kind is None:
        kind = Throttled if status == 429 else Unavailable if status >= 500 else Unauthenticated
    shown = code if re.fullmatch(r"\w{1,64}", code) else "none"
    return kind(f"token service request failed. source={source} status={status} code={shown}")


def _texts(body: bytes) -> dict[str, str]:
    """The texts of an XML document's leaves by local name, the first of each; empty if it is not XML."""
    if b"<!" in body:  # STS responses have no document type; without one, entities cannot expand
        return {}
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - see the line above
    except ElementTree.ParseError:
        return {}
    found: dict[str, str] = {}
    for element in root.iter():
        if len(element) == 0:
            found.setdefault(element.tag.rpartition("}")[2], (element.text or "").strip())
    return found


def _form(action: str, fields: dict[str, str]) -> bytes:
    return urlencode({"Action": action, "Version": API_VERSION, **fields}).encode()


def _is_secure(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback name or address; names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Trading an identity for temporary keys at a Security Token Service."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from lakebed.net.http import HttpRequest, send_with_retries

from ...core.errors import AccessDenied, InvalidSetting, LakebedError, Throttled, Unauthenticated, Unavailable
from ...core.secrets import Secret
from ...core.sigv4 import signed_headers
from .host_environment import HostEnvironment
from .model import Credentials, parse_expiry

API_VERSION = "2011-06-15"
FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"
DURATION_SECONDS = 3600
TIMEOUT_SECONDS = 10.0
TRIES = 3

_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_REFUSALS: dict[str, type[LakebedError]] = {
    "AccessDenied": AccessDenied,
    "AccessDeniedException": AccessDenied,
    "Throttling": Throttled,
    "ThrottlingException": Throttled,
    "IDPCommunicationError": Unavailable,
    "InternalFailure": Unavailable,
    "ServiceUnavailable": Unavailable,
}


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """The role that is asked for."""

    arn: str
    session_name: str
    duration_seconds: int = DURATION_SECONDS
    external_id: str | None = None
    policy: str | None = None
    """A session policy that limits what the role may do."""

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
    """One STS endpoint: the one given, else `AWS_ENDPOINT_URL_STS`, else the region's, else the global one."""

    host_environment: HostEnvironment
    region: str | None = None
    url: str | None = None
    """An endpoint that was checked before."""

    async def assume_role(self, base: Credentials, role: AssumedRole, source: str) -> Credentials:
        """Keys of `role` for somebody who already has keys."""
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
        return await self._ask(form, headers, source)

    async def assume_role_with_web_identity(self, token: Secret, role: AssumedRole, source: str) -> Credentials:
        """Keys of `role` for the bearer of a token of an identity provider. The request is not signed."""
        form = _form("AssumeRoleWithWebIdentity", {**role.fields(), "WebIdentityToken": token.reveal()})
        return await self._ask(form, {"content-type": FORM_TYPE}, source)

    @property
    def endpoint(self) -> str:
        """Where requests go. Raises InvalidSetting if that is not TLS, as a bearer token would cross in the clear."""
        if self.url is not None:
            return self.url.rstrip("/")
        configured = self.host_environment.value("AWS_ENDPOINT_URL_STS")
        if configured:
            if not _is_private_channel(configured):
                raise InvalidSetting("AWS_ENDPOINT_URL_STS: must be https, or http to a loopback address")
            return configured.rstrip("/")
        if self.region is None:
            return "https://sts.amazonaws.com"
        if not _REGION.fullmatch(self.region):
            raise InvalidSetting(f"region: not a region. found={self.region!r}")
        return f"https://sts.{self.region}.{'amazonaws.com.cn' if self.region.startswith('cn-') else 'amazonaws.com'}"

    async def _ask(self, form: bytes, headers: dict[str, str], source: str) -> Credentials:
        request = HttpRequest(
            "POST", self.endpoint + "/", {**headers, "accept": "application/xml"}, form, TIMEOUT_SECONDS, True
        )
        answer = await send_with_retries(self.host_environment.http, request, tries=TRIES, service="token service")
        if answer.status == 200:
            return parse_keys(answer.body, source)
        raise parse_refusal(answer.status, answer.body, source)


def parse_keys(body: bytes, source: str) -> Credentials:
    """The keys in the answer to AssumeRole or AssumeRoleWithWebIdentity. Raises Unavailable if it is not one."""
    found = _texts(body)
    for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"):
        if not found.get(name):
            raise Unavailable(f"token service answered without {name}. source={source}")
    return Credentials(
        found["AccessKeyId"],
        Secret(found["SecretAccessKey"]),
        Secret(found["SessionToken"]),
        parse_expiry(found["Expiration"], source),
        source=source,
    )


def parse_refusal(status: int, body: bytes, source: str) -> LakebedError:
    """The error in an answer that is not 200. Its free text is dropped: it can quote the token."""
    code = _texts(body).get("Code", "")
    kind = _REFUSALS.get(code)
    if kind is None:
        kind = Throttled if status == 429 else Unavailable if status >= 500 else Unauthenticated
    shown = code if re.fullmatch(r"\w{1,64}", code) else "none"
    return kind(f"token service refused. source={source} status={status} code={shown}")


def _texts(body: bytes) -> dict[str, str]:
    """Local names of the leaves of an XML document, the first of each; empty if it is not XML."""
    if b"<!" in body:  # no answer of STS has a document type, and without one no entity can expand
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


def _is_private_channel(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by its spelling alone; names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

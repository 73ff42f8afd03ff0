"""The steps of the network: DNS, TCP, TLS, clock. Requests are unsigned."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidSetting, LakebedError, Unavailable
from lakebed.net.tls import TlsFiles

from .model import StepFailed, StepFinding, StepOutcome
from .store_client import TIMEOUT_SECONDS, StoreClient, reason_of
from .target import CheckedStore

MAX_SKEW_SECONDS: Final = 15 * 60
"""Largest clock difference: stores reject signatures beyond it."""

_NOTABLE_SKEW_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 5.0

Address = tuple[str, int]


class NetworkSteps:
    """Resolves the host name, connects, performs the TLS handshake and compares clocks."""

    def __init__(self, target: CheckedStore, client: StoreClient, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._clock = clock
        self._addresses: Sequence[Address] = ()

    async def resolve(self) -> StepFinding:
        """Resolve the host name."""
        host, port = self._target.host, self._target.port
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise StepFailed(
                f"the name {host} does not resolve: {reason_of(error)}",
                f"Check the host name of the endpoint and the name resolution of this machine: getent hosts {host}."
                + self._style_advice(),
            ) from error
        self._addresses = list(dict.fromkeys((str(entry[4][0]), int(entry[4][1])) for entry in found))
        names = ", ".join(address for address, _ in self._addresses)
        return StepFinding("IP address" if _is_address(host) else f"{host} is {names}")

    async def connect(self) -> StepFinding:
        """Connect to the first address that accepts."""
        refusals: list[str] = []
        for address, port in self._addresses:
            shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            try:
                connection = await asyncio.to_thread(socket.create_connection, (address, port), _CONNECT_SECONDS)
            except OSError as error:
                refusals.append(f"{shown}: {reason_of(error)}")
                continue
            connection.close()
            return StepFinding(shown)
        raise StepFailed(
            f"connection failed: {'; '.join(refusals)}",
            "Check that the store is running, its port, and firewalls. An immediate refusal means that no process"
            " listens; a timeout means that packets are dropped.",
        )

    async def handshake(self) -> StepFinding:
        """Perform the TLS handshake, and check the certificate."""
        if self._target.is_plain:
            return StepFinding(
                "plain http",
                StepOutcome.SKIPPED,
                "traffic is not encrypted; use plain HTTP only on one machine or a trusted network",
            )
        try:
            version, expires = await asyncio.to_thread(self._shake_hands)
        except ssl.SSLCertVerificationError as error:
            raise StepFailed(
                f"the certificate is not trusted: {error.verify_message or reason_of(error)}",
                "For a private authority, set AWS_CA_BUNDLE to its certificate. If the certificate has another name"
                " or has expired, renew it.",
            ) from error
        except OSError as error:
            if await self._speaks_plain_http():
                raise StepFailed(
                    "the port speaks plain HTTP, and the endpoint says https",
                    "Use http:// in the endpoint, with storage.s3.allow_http for the storage backend; or use the"
                    " store's TLS port.",
                ) from error
            raise StepFailed(
                f"TLS handshake failed: {reason_of(error)}",
                "Check that the port uses TLS, and that the store supports TLS 1.2 or later.",
            ) from error
        return StepFinding(f"{version}, certificate until {expires:%Y-%m-%d}")

    async def compare_clocks(self) -> StepFinding:
        """Compare the store's clock with this machine's."""
        before_ms = self._clock.now_ms()
        try:
            response = await self._client.plain("GET", f"{self._target.endpoint}/")
        except Unavailable as error:
            await self._refuse_tls()
            raise StepFailed(str(error), "Check that an S3 store listens on that port.") from error
        if response.status == HTTPStatus.BAD_REQUEST:  # TLS servers may answer plain HTTP like this
            await self._refuse_tls()
        stated = response.headers.get("date", "")
        try:
            store_time = parsedate_to_datetime(stated).astimezone(UTC)
        except ValueError:
            return StepFinding("the response has no Date header", StepOutcome.ABSENT)
        # Date has whole seconds, and the response took some time: half of each is the best estimate.
        local_seconds = (before_ms + self._clock.now_ms()) / 2000
        ahead = store_time.timestamp() + 0.5 - local_seconds
        return judge_skew(ahead)

    def _shake_hands(self) -> tuple[str, datetime]:
        context = _tls_context(self._target.ca_bundle)
        with (
            socket.create_connection(self._addresses[0], _CONNECT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=self._target.host) as secured,
        ):
            certificate = secured.getpeercert() or {}
            expires = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
            return secured.version() or "TLS", datetime.fromtimestamp(expires, UTC)

    async def _refuse_tls(self) -> None:
        """Raise StepFailed if the port of a plain endpoint speaks TLS."""
        if self._target.is_plain and await asyncio.to_thread(self._speaks_tls):
            raise StepFailed("the port speaks TLS, and the endpoint says http", "Use https:// in the endpoint.")

    async def _speaks_plain_http(self) -> bool:
        plain = f"http://{self._target.host}:{self._target.port}/"
        try:
            await self._client.plain("GET", plain)
        except LakebedError:
            return False
        return True

    def _speaks_tls(self) -> bool:
        """Whether any TLS server listens at the port; certificates are not checked."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # no data is sent, only a handshake
        try:
            with socket.create_connection(self._addresses[0], TIMEOUT_SECONDS) as plain, context.wrap_socket(plain):
                return True
        except OSError:
            return False

    def _style_advice(self) -> str:
        if self._target.options.uses_path_style:
            return ""
        return " The host name contains the bucket: for stores that expect it in the path, set storage.s3.path_style."


def _tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    try:
        return TlsFiles(ca_bundle).context()
    except Unavailable as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise InvalidSetting(
            f"AWS_CA_BUNDLE: cannot read the certificates. path={ca_bundle} reason={reason_of(cause)}",
            argument="AWS_CA_BUNDLE",
        ) from error


def judge_skew(ahead_seconds: float) -> StepFinding:
    """The finding for a clock difference; negative if the store's clock is behind. Raises StepFailed if too large."""
    difference = abs(ahead_seconds)
    text = f"the store's clock is {_span(difference)} {'ahead of' if ahead_seconds > 0 else 'behind'} this machine's"
    if difference > MAX_SKEW_SECONDS:
        raise StepFailed(
            f"{text}: signatures more than {MAX_SKEW_SECONDS // 60} minutes off are rejected",
            "Synchronize the wrong clock: timedatectl set-ntp true. `date -u` prints this machine's time.",
        )
    if difference > _NOTABLE_SKEW_SECONDS:
        return StepFinding(text, why="still within the tolerance of stores; synchronize both clocks")
    return StepFinding(f"{difference:.0f} s apart")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

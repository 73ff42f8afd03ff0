"""The way to a store: its name, its port, its certificate, its clock. Nothing is signed yet."""

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
"""How far apart clocks may be: stores refuse what was signed at another time than that."""

_NOTABLE_SKEW_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 5.0

Address = tuple[str, int]


class NetworkSteps:
    """The way to one store, gone step by step."""

    def __init__(self, target: CheckedStore, client: StoreClient, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._clock = clock
        self._addresses: Sequence[Address] = ()

    async def look_up(self) -> StepFinding:
        """Find the addresses of the store's name."""
        host, port = self._target.host, self._target.port
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise StepFailed(
                f"the name {host} leads nowhere: {reason_of(error)}",
                f"See that the endpoint has the right host name, and that this machine knows it: getent hosts {host}."
                + self._style_advice(),
            ) from error
        self._addresses = list(dict.fromkeys((str(entry[4][0]), int(entry[4][1])) for entry in found))
        names = ", ".join(address for address, _ in self._addresses)
        return StepFinding("an address, not a name" if _is_address(host) else f"{host} is {names}")

    async def connect(self) -> StepFinding:
        """Connect to the first address that answers."""
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
            f"nothing answers there: {'; '.join(refusals)}",
            "See that the store runs and listens on that port, and that no firewall is in between. A refusal at once"
            " means that nothing listens; a wait without an answer, that something drops the packets.",
        )

    async def secure(self) -> StepFinding:
        """Shake hands, and look at the certificate."""
        if self._target.is_plain:
            return StepFinding(
                "plain http",
                StepOutcome.SKIPPED,
                "nothing on the way is encrypted; that is for one machine and for networks that are trusted",
            )
        try:
            version, expires = await asyncio.to_thread(self._shake_hands)
        except ssl.SSLCertVerificationError as error:
            raise StepFailed(
                f"the certificate is not trusted: {error.verify_message or reason_of(error)}",
                "If an authority of your own signed it, name its certificate in AWS_CA_BUNDLE. If it is for another"
                " name or has expired, it has to be made anew.",
            ) from error
        except OSError as error:
            if await self._speaks_plain_http():
                raise StepFailed(
                    "the port speaks plain HTTP, and the endpoint says https",
                    "Write http:// in the endpoint, and set storage.s3.allow_http for a byte store; or name the port"
                    " at which the store has TLS.",
                ) from error
            raise StepFailed(
                f"no TLS came about: {reason_of(error)}",
                "See that the port is the one with TLS, and that the store offers TLS 1.2 or later.",
            ) from error
        return StepFinding(f"{version}, certificate until {expires:%Y-%m-%d}")

    async def compare_clocks(self) -> StepFinding:
        """Hold the store's time against this machine's."""
        before_ms = self._clock.now_ms()
        try:
            response = await self._client.plain("GET", f"{self._target.endpoint}/")
        except Unavailable as error:
            await self._refuse_tls()
            raise StepFailed(
                str(error), "See that an S3 store listens on that port, and not something else."
            ) from error
        if response.status == HTTPStatus.BAD_REQUEST:  # servers that speak TLS may answer plain HTTP so
            await self._refuse_tls()
        stated = response.headers.get("date", "")
        try:
            theirs = parsedate_to_datetime(stated).astimezone(UTC)
        except ValueError:
            return StepFinding("the store does not tell its time", StepOutcome.ABSENT)
        # Their second may be nearly over, and the answer took a while: half of each is the best guess.
        ours = (before_ms + self._clock.now_ms()) / 2000
        ahead = theirs.timestamp() + 0.5 - ours
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
        """Raise StepFailed if a port that was taken for plain speaks TLS."""
        if self._target.is_plain and await asyncio.to_thread(self._speaks_tls):
            raise StepFailed("the port speaks TLS, and the endpoint says http", "Write https:// in the endpoint.")

    async def _speaks_plain_http(self) -> bool:
        plain = f"http://{self._target.host}:{self._target.port}/"
        try:
            await self._client.plain("GET", plain)
        except LakebedError:
            return False
        return True

    def _speaks_tls(self) -> bool:
        """Whether somebody shakes hands at a port that was taken for plain, whoever it is."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # nothing is sent: the question is only what is spoken there
        try:
            with socket.create_connection(self._addresses[0], TIMEOUT_SECONDS) as plain, context.wrap_socket(plain):
                return True
        except OSError:
            return False

    def _style_advice(self) -> str:
        if self._target.options.uses_path_style:
            return ""
        return " The bucket is part of the name: where the store wants it in the path, set storage.s3.path_style."


def _tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    try:
        return TlsFiles(ca_bundle).context()
    except Unavailable as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise InvalidSetting(
            f"AWS_CA_BUNDLE: the authorities cannot be read. path={ca_bundle} reason={reason_of(cause)}",
            argument="AWS_CA_BUNDLE",
        ) from error


def judge_skew(ahead_seconds: float) -> StepFinding:
    """What the store's clock being ahead, or behind where negative, means."""
    apart = abs(ahead_seconds)
    said = f"the store's clock is {_span(apart)} {'ahead of' if ahead_seconds > 0 else 'behind'} this machine's"
    if apart > MAX_SKEW_SECONDS:
        raise StepFailed(
            f"{said}: signatures are refused that are more than {MAX_SKEW_SECONDS // 60} minutes off",
            "Set the clock that is wrong, and have it kept right: timedatectl set-ntp true. `date -u` says what this"
            " machine takes for the time.",
        )
    if apart > _NOTABLE_SKEW_SECONDS:
        return StepFinding(said, why="still within what stores take; have both clocks kept right before it grows")
    return StepFinding(f"{apart:.0f} s apart")


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

"""The `nats` target: a subject of a NATS server, with or without JetStream.

Uses nats-py, the project's asyncio client.

With JetStream the stream must exist; it discards repeated attempts within its duplicate window. Without JetStream, a
message is delivered once the server has received it; disconnected subscribers miss it.

The header `Lakebed-Event-Id` has the event id. A stream deduplicates across all its subjects by the header
`Nats-Msg-Id`, which therefore names the target as well.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from nats.aio.client import Client
from nats.errors import Error, MaxPayloadError
from nats.js.errors import APIError
from nats.js.errors import Error as StreamError

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.net.tls import TlsFiles

from .addresses import TargetAddress, check_pair, check_present, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"nats": 4222, "tls": 4222}
_CONNECT_SECONDS: Final = 5
_MAX_IN_FLIGHT: Final = 64
_HEADER_LINE: Final = len("NATS/1.0\r\n\r\n")
_HEADER_SEPARATORS: Final = len(": \r\n")
_TOO_LONG: Final = frozenset({10054})
"""JetStream's error codes for messages over the stream's size limit."""


class NatsSettings(TargetSettings, frozen=True):
    """The server, the subject and the stream."""

    secrets: ClassVar[frozenset[str]] = frozenset({"password", "token"})

    address: str
    subject: str
    username: str | None = None
    password: str | None = None
    token: str | None = None
    credentials_file: str | None = None
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    tls_required: bool = False
    jetstream_enable: bool = False
    jetstream_stream_name: str = ""
    jetstream_ack_timeout_secs: int = 30

    def validate(self) -> None:
        """Raises InvalidInput."""
        _address(self)
        check_present(self.subject, "subject")
        if any(character in self.subject for character in " *>") or "" in self.subject.split("."):
            raise InvalidInput("subject must be dot-separated tokens without wildcards", argument="subject")
        check_pair(self.username, self.password)
        if sum(method is not None for method in (self.username, self.token, self.credentials_file)) > 1:
            raise InvalidInput("username, token and credentials_file exclude each other", argument="token")
        if self.jetstream_enable:
            check_present(self.jetstream_stream_name, "jetstream_stream_name")
        if not 1 <= self.jetstream_ack_timeout_secs <= 120:
            raise InvalidInput(
                "jetstream_ack_timeout_secs must be from 1 to 120", argument="jetstream_ack_timeout_secs"
            )
        TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key).validate()


class _Client(Client):
    """Never sends credentials without TLS if TLS is configured: it checks the server's offer first."""

    requires_tls = False

    def _connect_command(self) -> bytes:
        if self.requires_tls and not self._server_info.get("tls_required"):
            raise Error("nats: the server does not offer TLS")
        return super()._connect_command()


class NatsTarget(ConnectedTarget[_Client]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, settings: NatsSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        address = _address(settings)
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            address.where,
            tls=files if files.are_named or settings.tls_required or address.scheme == "tls" else None,
            secrets=(settings.password or "", settings.token or ""),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> _Client:
        settings = self._settings
        options: dict[str, Any] = {}  # Any: keyword arguments of `connect`
        if self._tls_files is not None:
            options["tls"] = self._tls_files.context()
        if settings.username is not None:
            options |= {"user": settings.username, "password": settings.password}
        if settings.token is not None:
            options["token"] = settings.token
        if settings.credentials_file is not None:
            options["user_credentials"] = settings.credentials_file
        client = _Client()
        client.requires_tls = self._tls_files is not None
        try:
            await client.connect(
                servers=[self._where],
                # The delivery retries itself; a reconnecting client could still send abandoned messages.
                allow_reconnect=False,
                connect_timeout=_CONNECT_SECONDS,
                error_cb=_ignore,
                no_echo=True,
                **options,
            )
        except BaseException:
            # In the background: after a failed handshake, closing takes until its timeout.
            self._begin_shutting(client)
            raise
        return client

    async def _shut(self, connection: _Client) -> None:
        await connection.close()

    async def _deliver(self, connection: _Client, message: EventMessage) -> None:
        headers = {
            "Nats-Msg-Id": message.deduplication_key,
            "Lakebed-Event-Id": message.id,
            "Content-Type": message.content_type,
            "Lakebed-Event-Name": message.name,
        }
        settings = self._settings
        if settings.jetstream_enable:
            headers["Nats-Expected-Stream"] = settings.jetstream_stream_name
        length = len(message.body) + _HEADER_LINE
        length += sum(len(name) + len(value) + _HEADER_SEPARATORS for name, value in headers.items())
        if length > connection.max_payload:
            raise Undeliverable(f"message too long. target={self._where} maximum={connection.max_payload}")
        if settings.jetstream_enable:
            await connection.jetstream().publish(
                settings.subject, message.body, timeout=settings.jetstream_ack_timeout_secs, headers=headers
            )
            return
        await connection.publish(settings.subject, message.body, headers=headers)
        # The server responds to the flush after processing the message.
        await connection.flush(timeout=max(1, int(self._deadline)))

    async def _probe(self, connection: _Client) -> None:
        settings = self._settings
        await connection.flush(timeout=max(1, int(self._deadline)))
        if not settings.jetstream_enable:
            return
        found = await connection.jetstream().stream_info(settings.jetstream_stream_name)
        if found.config.no_ack or found.config.sealed:
            raise Unavailable(f"stream is sealed or has no_ack. target={self._where} stream={found.config.name}")
        if not any(_covers(pattern, settings.subject) for pattern in found.config.subjects or []):
            raise Unavailable(
                f"stream does not cover the subject. target={self._where} stream={found.config.name} "
                f"subject={settings.subject}"
            )

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, MaxPayloadError):
            return Fault.MESSAGE
        if isinstance(error, APIError):
            return Fault.MESSAGE if error.err_code in _TOO_LONG else Fault.TEMPORARY
        return Fault.TEMPORARY if isinstance(error, StreamError) else Fault.CONNECTION


def _address(settings: NatsSettings) -> TargetAddress:
    return parse_address(settings.address, "address", _PORTS, credentials=False)


def _covers(pattern: str, subject: str) -> bool:
    """Whether a stream's pattern matches the subject: `*` is one token, `>` is one or more."""
    expected, found = pattern.split("."), subject.split(".")
    for index, part in enumerate(expected):
        if part == ">":
            return len(found) > index
        if index >= len(found) or part not in ("*", found[index]):
            return False
    return len(expected) == len(found)


async def _ignore(error: Exception) -> None:
    """Replaces the library's logging: the next `send` raises the error."""


TYPE: Final = TargetType("nats", NatsSettings, NatsTarget)

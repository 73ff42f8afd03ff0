"""The `amqp` target: an exchange of an AMQP 0-9-1 broker such as RabbitMQ.

Uses aio-pika, an asyncio client with publisher confirms.

A message is delivered once the broker confirms it; with `mandatory`, a queue then has it. The property `message_id` has
the event id.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, DeliveryMode
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError

from lakebed.core.errors import InvalidInput
from lakebed.net.tls import TlsFiles

from .addresses import TargetAddress, check_pair, check_present, check_tls_files, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_CONNECT_SECONDS: Final = 5.0
_MAX_IN_FLIGHT: Final = 64
_LIMIT: Final = re.compile(r"max size (\d+)")


class AmqpSettings(TargetSettings, frozen=True):
    """The broker, the exchange and the routing key."""

    secrets: ClassVar[frozenset[str]] = frozenset({"url", "password"})

    url: str
    exchange: str
    routing_key: str
    mandatory: bool = True
    persistent: bool = True
    username: str | None = None
    password: str | None = None
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = _address(self)
        check_present(self.routing_key, "routing_key")
        for name, value in (("exchange", self.exchange), ("routing_key", self.routing_key)):
            if len(value.encode()) > 255:
                raise InvalidInput(f"{name} has at most 255 bytes", argument=name)
        check_pair(self.username, self.password)
        if self.username is not None and address.username is not None:
            raise InvalidInput("credentials must be either in url or in username and password", argument="username")
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=address.scheme == "amqps",
            argument="url",
            expected="amqps://",
        )


class _TooLong(Exception):
    """The message exceeds the broker's limit."""


@dataclass(frozen=True, slots=True)
class _Connection:
    connection: AbstractConnection
    channel: AbstractChannel


class AmqpTarget(ConnectedTarget[_Connection]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, settings: AmqpSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        self._address = _address(settings)
        self._username = settings.username or self._address.username or "guest"
        password = settings.password if settings.password is not None else self._address.password
        self._password = "guest" if password is None else password
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            self._address.where,
            tls=files if self._address.scheme == "amqps" else None,
            secrets=(password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> _Connection:
        address = self._address
        host = f"[{address.host}]" if ":" in address.host else address.host
        credentials = f"{quote(self._username, safe='')}:{quote(self._password, safe='')}"
        connection = await aio_pika.connect(
            f"{address.scheme}://{credentials}@{host}:{address.port}{address.path or '/'}",
            ssl_context=None if self._tls_files is None else self._tls_files.context(),
            timeout=_CONNECT_SECONDS,
        )
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        except BaseException:
            with contextlib.suppress(Exception):
                await connection.close()
            raise
        return _Connection(connection, channel)

    async def _shut(self, connection: _Connection) -> None:
        await connection.connection.close()

    async def _deliver(self, connection: _Connection, message: EventMessage) -> None:
        settings = self._settings
        exchange = await connection.channel.get_exchange(settings.exchange, ensure=False)
        try:
            await exchange.publish(
                aio_pika.Message(
                    message.body,
                    content_type=message.content_type,
                    delivery_mode=DeliveryMode.PERSISTENT if settings.persistent else DeliveryMode.NOT_PERSISTENT,
                    message_id=message.id,
                    type=message.name[:255],
                    timestamp=datetime.fromtimestamp(message.occurred_ms // 1000, UTC),
                    app_id="lakebed",
                ),
                settings.routing_key,
                mandatory=settings.mandatory,
                timeout=self._deadline,
            )
        except ChannelPreconditionFailed as error:
            # The broker closes the channel for all messages in flight; only the oversized one must not be retried.
            limit = _LIMIT.search(str(error))
            if limit is not None and len(message.body) > int(limit[1]):
                raise _TooLong(f"too long. maximum={limit[1]}") from None
            raise

    async def _probe(self, connection: _Connection) -> None:
        # On a separate channel, which the broker closes if the exchange does not exist.
        channel = await connection.connection.channel()
        try:
            if self._settings.exchange:
                await channel.get_exchange(self._settings.exchange, ensure=True)
        finally:
            with contextlib.suppress(Exception):
                await channel.close()

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, DeliveryError):
            return Fault.TEMPORARY  # rejected, or not routed to any queue
        if isinstance(error, _TooLong):
            return Fault.MESSAGE_AND_CONNECTION
        return Fault.CONNECTION


def _address(settings: AmqpSettings) -> TargetAddress:
    return parse_address(settings.url, "url", _PORTS, credentials=True, path=True)


TYPE: Final = TargetType("amqp", AmqpSettings, AmqpTarget)

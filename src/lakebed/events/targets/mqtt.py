"""Events on a topic of an MQTT broker, over TCP or WebSockets.

Spoken with Eclipse Paho, the reference client: MQTT 5 tells why a broker refuses a message, and Paho passes it on,
which the wrappers for asyncio around it do not. It has a thread of its own; what it hears goes to the event loop.

A message is delivered when the broker has acknowledged it. Its id is the user property `id`, in every attempt; with
MQTT 3.1.1 there is no such thing.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from lakebed.core.errors import InvalidInput, Undeliverable
from lakebed.net.tls import TlsFiles

from .addresses import TargetAddress, check_one_of, check_pair, check_present, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {
    "mqtt": 1883,
    "tcp": 1883,
    "ws": 80,
    "mqtts": 8883,
    "tls": 8883,
    "ssl": 8883,
    "tcps": 8883,
    "wss": 443,
}
_FIVE: Final = "5"
_PROTOCOLS: Final[Mapping[str, MQTTProtocolVersion]] = {_FIVE: MQTTv5, "3.1.1": MQTTv311}
_SECURE: Final = frozenset({"mqtts", "tls", "ssl", "tcps", "wss"})
_WEBSOCKETS: Final = frozenset({"ws", "wss"})
_CONNECT_SECONDS: Final = 5.0
_AT_ONCE: Final = 20
"""As many as brokers take by default before they have acknowledged the first."""
_FIXED_BYTES: Final = 9
"""The head of a packet, the length of its topic, its number."""
_REFUSED: Final = frozenset({0x95, 0x99})
"""Packet too large; payload format invalid."""


class MqttSettings(TargetSettings, frozen=True):
    """Where the broker is, and on which topic."""

    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    broker: str
    topic: str
    qos: int = 1
    username: str | None = None
    password: str | None = None
    keep_alive_interval: int = 30
    protocol: str = _FIVE
    """`5`, or `3.1.1`, with which a message has no id beside it and a broker cannot say that it refuses one."""
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = _address(self)
        check_present(self.topic, "topic")
        if any(character in self.topic for character in "+#") or len(self.topic.encode()) > 65535:
            raise InvalidInput("topic has no wildcards, and at most 65535 bytes", argument="topic")
        if self.qos != 1:
            # With 0 nobody knows what arrived; with 2 the client does not pass on that a broker refused.
            raise InvalidInput("qos is 1: the broker says that it has a message", argument="qos", value=str(self.qos))
        check_one_of(self.protocol, "protocol", tuple(_PROTOCOLS))
        check_pair(self.username, self.password)
        if not 1 <= self.keep_alive_interval <= 65535:
            raise InvalidInput("keep_alive_interval is from 1 to 65535 seconds", argument="keep_alive_interval")
        files = TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key)
        if files.are_named and address.scheme not in _SECURE:
            raise InvalidInput("files for TLS go with mqtts:// or wss://", argument="broker")
        files.validate()


class _Refused(Exception):
    """The broker said no."""

    def __init__(self, reason: ReasonCode) -> None:
        super().__init__(reason.getName())
        self.code: int = reason.value


class _Lost(Exception):
    """The connection is over."""


class _Client(Client):
    """Paho's, which would leave sockets open after it failed to connect."""

    def let_go(self) -> None:
        """Close what is left."""
        self._reset_sockets()

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        if self._ssl_context is None:
            return super()._ssl_wrap_socket(tcp_sock)
        secured = self._ssl_context.wrap_socket(tcp_sock, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            secured.settimeout(_CONNECT_SECONDS)
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured


class _Session:
    """A client of Paho's, heard from the event loop that made it."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.max_packet_bytes: int | None = None
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._unanswered: dict[int, asyncio.Future[None]] = {}
        self._lost: _Lost | None = None
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish

    async def connect(self, address: TargetAddress, keep_alive: int) -> None:
        await asyncio.to_thread(self.client.connect, address.host, address.port, keep_alive)
        self.client.loop_start()
        async with asyncio.timeout(_CONNECT_SECONDS):
            await self._connected

    async def publish(self, topic: str, body: bytes, qos: int, properties: Properties | None) -> None:
        if self._lost is not None:
            raise self._lost
        sent = self.client.publish(topic, body, qos, properties=properties)
        if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _Lost(sent.rc.name)
        # What the thread has heard meanwhile comes to this loop after this line.
        answer = self._unanswered[sent.mid] = self._loop.create_future()
        try:
            await answer
        finally:
            self._unanswered.pop(sent.mid, None)

    async def close(self) -> None:
        self.client.disconnect()
        await asyncio.to_thread(self.client.loop_stop)
        self.client.let_go()

    # -- heard in Paho's thread -----------------------------------------------------------------------------------

    def _on_connect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._hear(self._welcomed, reason, getattr(properties, "MaximumPacketSize", None))

    def _on_disconnect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._hear(self._dismissed, reason.getName())

    def _on_publish(
        self, client: Client, data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._hear(self._acknowledged, mid, reason)

    def _hear(self, told: Any, *what: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(told, *what)

    # -- and told in the loop -------------------------------------------------------------------------------------

    def _welcomed(self, reason: ReasonCode, max_packet_bytes: int | None) -> None:
        self.max_packet_bytes = max_packet_bytes
        if self._connected.done():
            return
        if reason.is_failure:
            self._connected.set_exception(_Refused(reason))
        else:
            self._connected.set_result(None)

    def _dismissed(self, reason: str) -> None:
        self._lost = _Lost(f"the broker hung up: {reason}")
        for answer in (self._connected, *self._unanswered.values()):
            if not answer.done():
                answer.set_exception(self._lost)

    def _acknowledged(self, mid: int, reason: ReasonCode) -> None:
        answer = self._unanswered.get(mid)
        if answer is None or answer.done():
            return
        if reason.is_failure:
            answer.set_exception(_Refused(reason))
        else:
            answer.set_result(None)


class MqttTarget(ConnectedTarget[_Session]):
    """Implements `Target`."""

    max_in_flight = _AT_ONCE

    def __init__(self, settings: MqttSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        self._address = _address(settings)
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            self._address.where,
            tls=files if self._address.scheme in _SECURE else None,
            secrets=(settings.password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> _Session:
        settings = self._settings
        client = _Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"lakebed-{secrets.token_hex(8)}",
            protocol=_PROTOCOLS[settings.protocol],
            transport="websockets" if self._address.scheme in _WEBSOCKETS else "tcp",
            # Whoever delivers decides about another attempt, and must not be answered by one that he gave up.
            reconnect_on_failure=False,
        )
        client.connect_timeout = _CONNECT_SECONDS
        client.max_inflight_messages_set(_AT_ONCE)
        if self._address.scheme in _WEBSOCKETS:
            client.ws_set_options(path=self._address.path or "/mqtt")
        if self._tls_files is not None:
            client.tls_set_context(self._tls_files.context())
        if settings.username is not None:
            client.username_pw_set(settings.username, settings.password)
        session = _Session(client)
        try:
            await session.connect(self._address, settings.keep_alive_interval)
        except BaseException:
            await self._shut_in_time(session)
            raise
        return session

    async def _shut(self, connection: _Session) -> None:
        await connection.close()

    async def _deliver(self, connection: _Session, message: EventMessage) -> None:
        if self._settings.protocol != _FIVE:
            await connection.publish(self._settings.topic, message.body, self._settings.qos, None)
            return
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # Paho types it in part
        properties.ContentType = message.content_type
        properties.UserProperty = [("id", message.id), ("name", message.name)]
        limit = connection.max_packet_bytes
        packed: bytes = properties.pack()  # type: ignore[no-untyped-call]  # Paho types it in part
        length = len(message.body) + len(self._settings.topic.encode()) + len(packed) + _FIXED_BYTES
        if limit is not None and length > limit:
            # The broker would hang up on it.
            raise Undeliverable(f"the message is too long. target={self._where} maximum={limit}")
        await connection.publish(self._settings.topic, message.body, self._settings.qos, properties)

    async def _probe(self, connection: _Session) -> None:
        if not connection.client.is_connected():
            raise _Lost("the broker hung up")

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, _Refused):
            return Fault.MESSAGE if error.code in _REFUSED else Fault.MOMENT
        # What the protocol cannot say at all, Paho refuses itself.
        return Fault.MESSAGE if isinstance(error, ValueError) else Fault.CONNECTION


def _address(settings: MqttSettings) -> TargetAddress:
    return parse_address(settings.broker, "broker", _PORTS, credentials=False, path=True)


KIND: Final = TargetType("mqtt", MqttSettings, MqttTarget)

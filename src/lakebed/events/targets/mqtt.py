"""The `mqtt` target: a topic of an MQTT broker, over TCP or WebSockets.

Uses Eclipse Paho, because it returns the reason codes with which MQTT 5 brokers reject messages; its asyncio wrappers
do not. Paho runs in its own thread, and its callbacks are forwarded to the event loop.

A message is delivered once the broker acknowledges it. The user property `id` has the event id, except with MQTT 3.1.1,
which has no user properties.
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

from .addresses import TargetAddress, check_one_of, check_pair, check_present, check_tls_files, parse_address
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
_V5: Final = "5"
_PROTOCOLS: Final[Mapping[str, MQTTProtocolVersion]] = {_V5: MQTTv5, "3.1.1": MQTTv311}
_SECURE: Final = frozenset({"mqtts", "tls", "ssl", "tcps", "wss"})
_WEBSOCKETS: Final = frozenset({"ws", "wss"})
_CONNECT_SECONDS: Final = 5.0
_MAX_IN_FLIGHT: Final = 20
"""The default limit of brokers for unacknowledged messages."""
_FIXED_BYTES: Final = 9
"""Fixed header, topic length and packet id."""
_REJECTED: Final = frozenset({0x95, 0x99})
"""Packet too large; payload format invalid."""


class MqttSettings(TargetSettings, frozen=True):
    """The broker and the topic."""

    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    broker: str
    topic: str
    qos: int = 1
    username: str | None = None
    password: str | None = None
    keep_alive_interval: int = 30
    protocol: str = _V5
    """`5`, or `3.1.1`, which has neither event ids nor rejections by the broker."""
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = _address(self)
        check_present(self.topic, "topic")
        if any(character in self.topic for character in "+#") or len(self.topic.encode()) > 65535:
            raise InvalidInput("topic must have no wildcards and at most 65535 bytes", argument="topic")
        if self.qos != 1:
            # 0 has no acknowledgement; with 2, Paho does not report rejections.
            raise InvalidInput("qos must be 1", argument="qos", value=str(self.qos))
        check_one_of(self.protocol, "protocol", tuple(_PROTOCOLS))
        check_pair(self.username, self.password)
        if not 1 <= self.keep_alive_interval <= 65535:
            raise InvalidInput("keep_alive_interval must be from 1 to 65535 seconds", argument="keep_alive_interval")
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=address.scheme in _SECURE,
            argument="broker",
            expected="mqtts:// or wss://",
        )


class _Rejected(Exception):
    """The broker rejected a connection or message."""

    def __init__(self, reason: ReasonCode) -> None:
        super().__init__(reason.getName())
        self.code: int = reason.value


class _Disconnected(Exception):
    """The connection is closed."""


class _Client(Client):
    """A Paho client that closes its sockets after a failed connection."""

    def close_sockets(self) -> None:
        """Close all sockets."""
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
    """A Paho client, used from the event loop that created it."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.max_packet_bytes: int | None = None
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._unacknowledged: dict[int, asyncio.Future[None]] = {}
        self._disconnected: _Disconnected | None = None
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish

    async def connect(self, address: TargetAddress, keep_alive: int) -> None:
        await asyncio.to_thread(self.client.connect, address.host, address.port, keep_alive)
        self.client.loop_start()
        async with asyncio.timeout(_CONNECT_SECONDS):
            await self._connected

    async def publish(self, topic: str, body: bytes, qos: int, properties: Properties | None) -> None:
        if self._disconnected is not None:
            raise self._disconnected
        sent = self.client.publish(topic, body, qos, properties=properties)
        if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _Disconnected(sent.rc.name)
        # An acknowledgement that Paho's thread has already received reaches this loop after this line.
        acknowledgement = self._unacknowledged[sent.mid] = self._loop.create_future()
        try:
            await acknowledgement
        finally:
            self._unacknowledged.pop(sent.mid, None)

    async def close(self) -> None:
        self.client.disconnect()
        await asyncio.to_thread(self.client.loop_stop)
        self.client.close_sockets()

    # -- callbacks in Paho's thread -------------------------------------------------------------------------------

    def _on_connect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._forward(self._set_connected, reason, getattr(properties, "MaximumPacketSize", None))

    def _on_disconnect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._forward(self._set_disconnected, reason.getName())

    def _on_publish(
        self, client: Client, data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._forward(self._set_acknowledged, mid, reason)

    def _forward(self, callback: Any, *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    # -- callbacks in the event loop ------------------------------------------------------------------------------

    def _set_connected(self, reason: ReasonCode, max_packet_bytes: int | None) -> None:
        self.max_packet_bytes = max_packet_bytes
        if self._connected.done():
            return
        if reason.is_failure:
            self._connected.set_exception(_Rejected(reason))
        else:
            self._connected.set_result(None)

    def _set_disconnected(self, reason: str) -> None:
        self._disconnected = _Disconnected(f"the broker closed the connection: {reason}")
        for future in (self._connected, *self._unacknowledged.values()):
            if not future.done():
                future.set_exception(self._disconnected)

    def _set_acknowledged(self, mid: int, reason: ReasonCode) -> None:
        acknowledgement = self._unacknowledged.get(mid)
        if acknowledgement is None or acknowledgement.done():
            return
        if reason.is_failure:
            acknowledgement.set_exception(_Rejected(reason))
        else:
            acknowledgement.set_result(None)


class MqttTarget(ConnectedTarget[_Session]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

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
            # The delivery retries itself; a reconnecting client could still send abandoned messages.
            reconnect_on_failure=False,
        )
        client.connect_timeout = _CONNECT_SECONDS
        client.max_inflight_messages_set(_MAX_IN_FLIGHT)
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
        if self._settings.protocol != _V5:
            await connection.publish(self._settings.topic, message.body, self._settings.qos, None)
            return
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # Paho types it in part
        properties.ContentType = message.content_type
        properties.UserProperty = [("id", message.id), ("name", message.name)]
        limit = connection.max_packet_bytes
        packed: bytes = properties.pack()  # type: ignore[no-untyped-call]  # Paho types it in part
        length = len(message.body) + len(self._settings.topic.encode()) + len(packed) + _FIXED_BYTES
        if limit is not None and length > limit:
            # The broker would close the connection.
            raise Undeliverable(f"message too long. target={self._where} maximum={limit}")
        await connection.publish(self._settings.topic, message.body, self._settings.qos, properties)

    async def _probe(self, connection: _Session) -> None:
        if not connection.client.is_connected():
            raise _Disconnected("the broker closed the connection")

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, _Rejected):
            return Fault.MESSAGE if error.code in _REJECTED else Fault.TEMPORARY
        # ValueError: Paho rejects messages that the protocol cannot encode.
        return Fault.MESSAGE if isinstance(error, ValueError) else Fault.CONNECTION


def _address(settings: MqttSettings) -> TargetAddress:
    return parse_address(settings.broker, "broker", _PORTS, credentials=False, path=True)


TYPE: Final = TargetType("mqtt", MqttSettings, MqttTarget)

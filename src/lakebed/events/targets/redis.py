"""The `redis` target: a channel, stream, list or hash in Redis or Valkey.

Uses redis-py, the project's client, with asyncio.

A channel stores nothing: subscribers that are not connected miss the message. An entry of a stream has the fields `id`,
`name` and `body`. A hash is a mirror with a field `<bucket>/<key>` per key. A list has entries
`[{"Event": [record], "EventTime": …, "Id": …}]`. Repeated attempts have the same id.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Mapping
from datetime import UTC
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.net.tls import TlsFiles

from .addresses import check_one_of, check_present, check_tls_files, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .formats import Format, occurred_at, records_of
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"redis": 6379, "rediss": 6379, "valkey": 6379, "valkeys": 6379}
_SECURE: Final = frozenset({"rediss", "valkeys"})
_CHANNEL: Final = "channel"
_STREAM: Final = "stream"
_FORMATS: Final = (_CHANNEL, _STREAM, Format.NAMESPACE, Format.ACCESS)
_TYPES: Final[Mapping[str, str]] = {_STREAM: "stream", Format.NAMESPACE: "hash", Format.ACCESS: "list"}
_CONNECTIONS: Final = 8
_MAX_BULK_BYTES: Final = 512 * 1024 * 1024
"""The default maximum size of a value, if the server does not report its own."""


class RedisSettings(TargetSettings, frozen=True):
    """The server, and how it stores events."""

    secrets: ClassVar[frozenset[str]] = frozenset({"url", "password"})

    url: str
    format: str = _CHANNEL
    channel: str = "lakebed_events"
    key: str = ""
    max_length: int = 0
    """The approximate maximum length of a stream; 0 for no limit."""
    username: str | None = None
    password: str | None = None
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    connection_timeout: float = 5.0
    response_timeout: float = 5.0

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = parse_address(self.url, "url", _PORTS, credentials=True, path=True)
        if address.path.strip("/") and not address.path.strip("/").isdecimal():
            raise InvalidInput("the path of url must be a database number", argument="url")
        if address.password is not None and self.password is not None:
            raise InvalidInput("the password must be either in url or in password", argument="password")
        check_one_of(self.format, "format", _FORMATS)
        check_present(
            self.channel if self.format == _CHANNEL else self.key, "channel" if self.format == _CHANNEL else "key"
        )
        if self.max_length < 0 or (self.max_length and self.format != _STREAM):
            raise InvalidInput("max_length must be at least 0, and requires the format stream", argument="max_length")
        for name, seconds in (
            ("connection_timeout", self.connection_timeout),
            ("response_timeout", self.response_timeout),
        ):
            if not 0 < seconds <= DELIVERY_SECONDS:
                raise InvalidInput(f"{name} must be at most {DELIVERY_SECONDS:g} seconds", argument=name)
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=address.scheme in _SECURE,
            argument="url",
            expected="rediss:// or valkeys://",
        )


class _TlsConnection(Connection):
    """Uses our TLS context: the library's would trust the system's authorities in addition to `tls_ca`."""

    def __init__(self, *, tls: ssl.SSLContext, **options: Any) -> None:  # Any: keyword arguments of the library
        super().__init__(**options)
        self._tls = tls

    def _connection_arguments(self) -> dict[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._tls}


class _Client(NamedTuple):
    """A connection pool, and the server's maximum size of a value."""

    redis: Redis
    max_bytes: int


class RedisTarget(ConnectedTarget[_Client]):
    """Implements `EventTarget`."""

    max_in_flight = _CONNECTIONS

    def __init__(self, settings: RedisSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        self._address = parse_address(settings.url, "url", _PORTS, credentials=True, path=True)
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        self._password = settings.password if settings.password is not None else self._address.password
        super().__init__(
            self._address.where,
            tls=files if self._address.scheme in _SECURE else None,
            secrets=(self._password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> _Client:
        redis = Redis.from_pool(self._pool())
        try:
            await _ping(redis)
            return _Client(redis, await _max_bulk_bytes(redis))
        except BaseException:
            await redis.aclose()
            raise

    def _pool(self) -> BlockingConnectionPool:
        settings, address = self._settings, self._address
        options: dict[str, Any] = {}  # Any: keyword arguments of the connection
        if self._tls_files is not None:
            options["tls"] = self._tls_files.context()
        return BlockingConnectionPool(
            connection_class=Connection if self._tls_files is None else _TlsConnection,
            max_connections=_CONNECTIONS,
            host=address.host,
            port=address.port,
            db=int(unquote(address.path).strip("/") or 0),
            username=settings.username if settings.username is not None else (address.username or None),
            password=self._password,
            socket_connect_timeout=settings.connection_timeout,
            socket_timeout=settings.response_timeout,
            retry=Retry(NoBackoff(), 0),  # the delivery retries itself
            **options,
        )

    async def _shut(self, connection: _Client) -> None:
        await connection.redis.aclose()

    async def _deliver(self, connection: _Client, message: EventMessage) -> None:
        redis, settings = connection.redis, self._settings
        value = self._value(message)
        if max(len(value), len(message.key.encode())) > connection.max_bytes:
            # The server would close the connection.
            raise Undeliverable(f"message too long. target={self._where} maximum={connection.max_bytes}")
        if settings.format == _CHANNEL:
            await redis.publish(settings.channel, value)
        elif settings.format == _STREAM:
            fields: dict[Any, Any] = {"id": message.id, "name": message.name, "body": value}  # Any: as redis-py has it
            await redis.xadd(settings.key, fields, maxlen=settings.max_length or None)
        elif settings.format == Format.ACCESS:
            await redis.rpush(settings.key, value)
        elif message.is_removal:
            await redis.hdel(settings.key, message.key)
        else:
            await redis.hset(settings.key, message.key, value)

    def _value(self, message: EventMessage) -> bytes:
        if self._settings.format in (_CHANNEL, _STREAM):
            return message.body
        records = records_of(message)
        if self._settings.format == Format.NAMESPACE:
            return msgspec.json.encode({"Records": records})
        when = occurred_at(message).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return msgspec.json.encode([{"Event": records, "EventTime": when, "Id": message.id}])

    async def _probe(self, connection: _Client) -> None:
        await _ping(connection.redis)
        expected = _TYPES.get(self._settings.format)
        if expected is None:
            return
        response = await connection.redis.type(self._settings.key)
        found = response.decode() if isinstance(response, bytes) else response
        if found not in ("none", expected):
            raise Unavailable(
                f"the key has another type. target={self._where} key={self._settings.key} "
                f"expected={expected} found={found}"
            )

    def _fault(self, error: Exception) -> Fault:
        # Error responses are about the key, memory or replication, except for failed authentication.
        is_response = isinstance(error, ResponseError) and not isinstance(error, AuthenticationError)
        return Fault.TEMPORARY if is_response else Fault.CONNECTION


async def _ping(redis: Redis) -> None:
    """Wait for a response. A missing permission for PING is one too."""
    with contextlib.suppress(NoPermissionError):
        await redis.ping()


async def _max_bulk_bytes(redis: Redis) -> int:
    try:
        found = await redis.config_get("proto-max-bulk-len")
    except ResponseError:  # no permission, or not supported by the provider
        return _MAX_BULK_BYTES
    return int(next(iter(found.values()), None) or _MAX_BULK_BYTES)


TYPE: Final = TargetType("redis", RedisSettings, RedisTarget)

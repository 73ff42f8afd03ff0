"""The `pulsar` target: a topic of a Pulsar cluster.

Uses the project's client, whose C++ core has its own threads; its callbacks are forwarded to the event loop.

A message is delivered once the broker returns its receipt. The partition key is `<bucket>/<key>`, which keeps messages
of one object in order. The property `id` has the event id.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pulsar

from lakebed.core.errors import InvalidInput
from lakebed.net.tls import TlsFiles

from .addresses import TargetAddress, check_pair, check_present, check_tls_files, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
_MAX_IN_FLIGHT: Final = 64
_CONNECT_SECONDS: Final = 10


class PulsarSettings(TargetSettings, frozen=True):
    """The cluster and the topic."""

    secrets: ClassVar[frozenset[str]] = frozenset({"auth_token", "password"})

    broker: str
    topic: str
    auth_token: str | None = None
    username: str | None = None
    password: str | None = None
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    tls_hostname_verification: bool = True

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = _address(self)
        check_present(self.topic, "topic")
        check_pair(self.username, self.password)
        if sum(method is not None for method in (self.auth_token, self.username, self.tls_client_cert)) > 1:
            raise InvalidInput("auth_token, username and tls_client_cert exclude each other", argument="auth_token")
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=address.scheme == "pulsar+ssl",
            argument="broker",
            expected="pulsar+ssl://",
        )


@dataclass(frozen=True, slots=True)
class _Connection:
    client: pulsar.Client
    producer: pulsar.Producer


class _Rejected(Exception):
    """An error result of the client."""

    def __init__(self, result: pulsar.Result) -> None:
        super().__init__(result.name)
        self.result = result


class PulsarTarget(ConnectedTarget[_Connection]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, settings: PulsarSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        address = _address(settings)
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            address.where,
            tls=files if address.scheme == "pulsar+ssl" else None,
            secrets=(settings.password or "", settings.auth_token or ""),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> _Connection:
        if self._tls_files is not None:
            self._tls_files.context()  # validates the files with better error messages than the client's
        connecting = asyncio.get_running_loop().run_in_executor(None, self._connect_blocking)
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_abandoned)  # the thread cannot be cancelled
            raise

    def _connect_blocking(self) -> _Connection:
        settings = self._settings
        seconds = max(1, int(min(_CONNECT_SECONDS, self._deadline)))
        client = pulsar.Client(
            self._where,
            authentication=self._authentication(),
            operation_timeout_seconds=seconds,
            connection_timeout_ms=seconds * 1000,
            tls_trust_certs_file_path=settings.tls_ca or ssl.get_default_verify_paths().cafile,
            tls_allow_insecure_connection=False,
            tls_validate_hostname=settings.tls_hostname_verification,
            # Errors are raised. A Python logger would make the core's threads wait for the interpreter.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )
        try:
            producer = client.create_producer(
                settings.topic,
                send_timeout_millis=max(1, int(self._deadline * 800)),
                block_if_queue_full=False,
                batching_enabled=False,  # each receipt would wait for its batch
            )
        except BaseException:
            client.close()
            raise
        return _Connection(client, producer)

    def _authentication(self) -> Any:  # Any: classes without a common base
        settings = self._settings
        if settings.auth_token is not None:
            return pulsar.AuthenticationToken(settings.auth_token)
        if settings.username is not None:
            return pulsar.AuthenticationBasic(settings.username, settings.password)
        if settings.tls_client_cert is not None:
            return pulsar.AuthenticationTLS(settings.tls_client_cert, settings.tls_client_key)
        return None

    async def _shut(self, connection: _Connection) -> None:
        await asyncio.to_thread(connection.client.close)

    async def _deliver(self, connection: _Connection, message: EventMessage) -> None:
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[None] = loop.create_future()

        def settle(result: pulsar.Result) -> None:
            if receipt.done():
                return
            if result == pulsar.Result.Ok:
                receipt.set_result(None)
            else:
                receipt.set_exception(_Rejected(result))

        def on_receipt(result: pulsar.Result, _: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result)

        connection.producer.send_async(
            message.body,
            on_receipt,
            properties={"id": message.id, "name": message.name, "content-type": message.content_type},
            partition_key=message.key,
            event_timestamp=message.occurred_ms,
        )
        await receipt

    async def _probe(self, connection: _Connection) -> None:
        if not connection.producer.is_connected():
            raise _Rejected(pulsar.Result.NotConnected)

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, pulsar.MessageTooBig) or (
            isinstance(error, _Rejected) and error.result == pulsar.Result.MessageTooBig
        ):
            return Fault.MESSAGE
        return Fault.CONNECTION


def _close_abandoned(connecting: asyncio.Future[_Connection]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().client.close()


def _address(settings: PulsarSettings) -> TargetAddress:
    return parse_address(settings.broker, "broker", _PORTS, credentials=False)


TYPE: Final = TargetType("pulsar", PulsarSettings, PulsarTarget)

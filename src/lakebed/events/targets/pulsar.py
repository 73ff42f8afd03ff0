"""Events on a topic of a Pulsar cluster.

Spoken with the project's own client, whose C++ core has threads of its own; what it hears goes to the event loop.

A message is delivered when the broker has given its receipt. Its partition key is `<bucket>/<key>`, so that those of
one object stay in order; its id is the property `id`, in every attempt.
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

from .addresses import TargetAddress, check_pair, check_present, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
_AT_ONCE: Final = 64
_CONNECT_SECONDS: Final = 10


class PulsarSettings(TargetSettings, frozen=True):
    """Where the cluster is, and on which topic."""

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
        files = TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key)
        if sum(way is not None for way in (self.auth_token, self.username, self.tls_client_cert)) > 1:
            raise InvalidInput("one of auth_token, username and tls_client_cert is given", argument="auth_token")
        if files.are_named and address.scheme != "pulsar+ssl":
            raise InvalidInput("files for TLS go with pulsar+ssl://", argument="broker")
        files.validate()


@dataclass(frozen=True, slots=True)
class _Opened:
    client: pulsar.Client
    producer: pulsar.Producer


class _Refused(Exception):
    """What the core answered."""

    def __init__(self, result: pulsar.Result) -> None:
        super().__init__(result.name)
        self.result = result


class PulsarTarget(ConnectedTarget[_Opened]):
    """Implements `Target`."""

    max_in_flight = _AT_ONCE

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

    async def _open(self) -> _Opened:
        if self._tls_files is not None:
            self._tls_files.context()  # tells what is wrong with the files in our own words
        connecting = asyncio.get_running_loop().run_in_executor(None, self._connect_blocking)
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_unwanted)  # the thread goes on, and nobody waits for what it makes
            raise

    def _connect_blocking(self) -> _Opened:
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
            # What matters is raised. Not a logger of Python's: the core's threads would wait for the interpreter.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )
        try:
            producer = client.create_producer(
                settings.topic,
                send_timeout_millis=max(1, int(self._deadline * 800)),
                block_if_queue_full=False,
                # Whoever waits for a receipt waits for a batch to fill, too.
                batching_enabled=False,
            )
        except BaseException:
            client.close()
            raise
        return _Opened(client, producer)

    def _authentication(self) -> Any:  # Any: one of several classes without a common name
        settings = self._settings
        if settings.auth_token is not None:
            return pulsar.AuthenticationToken(settings.auth_token)
        if settings.username is not None:
            return pulsar.AuthenticationBasic(settings.username, settings.password)
        if settings.tls_client_cert is not None:
            return pulsar.AuthenticationTLS(settings.tls_client_cert, settings.tls_client_key)
        return None

    async def _shut(self, connection: _Opened) -> None:
        await asyncio.to_thread(connection.client.close)

    async def _deliver(self, connection: _Opened, message: EventMessage) -> None:
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[None] = loop.create_future()

        def settle(result: pulsar.Result) -> None:
            if receipt.done():
                return
            if result == pulsar.Result.Ok:
                receipt.set_result(None)
            else:
                receipt.set_exception(_Refused(result))

        def heard(result: pulsar.Result, _: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result)

        connection.producer.send_async(
            message.body,
            heard,
            properties={"id": message.id, "name": message.name, "content-type": message.content_type},
            partition_key=message.key,
            event_timestamp=message.occurred_ms,
        )
        await receipt

    async def _probe(self, connection: _Opened) -> None:
        if not connection.producer.is_connected():
            raise _Refused(pulsar.Result.NotConnected)

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, pulsar.MessageTooBig) or (
            isinstance(error, _Refused) and error.result == pulsar.Result.MessageTooBig
        ):
            return Fault.MESSAGE
        return Fault.CONNECTION


def _close_unwanted(connecting: asyncio.Future[_Opened]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        opened = connecting.result()
        opened.client.close()


def _address(settings: PulsarSettings) -> TargetAddress:
    return parse_address(settings.broker, "broker", _PORTS, credentials=False)


KIND: Final = TargetType("pulsar", PulsarSettings, PulsarTarget)

"""The `kafka` target: a topic of a Kafka cluster.

Uses aiokafka, an asyncio client; confluent-kafka has its own threads and queue.

A message is delivered once all in-sync replicas have it. Its key is `<bucket>/<key>`, which keeps messages of one
object in order. The header `id` has the event id.
"""

from __future__ import annotations

import ssl
from typing import Any, ClassVar, Final

from aiokafka import AIOKafkaProducer
from aiokafka.conn import create_conn
from aiokafka.errors import (
    InvalidMessageError,
    KafkaConnectionError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from lakebed.core.errors import InvalidInput, Unavailable
from lakebed.net.tls import TlsFiles

from .addresses import check_one_of, check_present, check_tls_files, parse_brokers
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_ACKS: Final = {"all": "all", "-1": "all", "1": 1}
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MAX_IN_FLIGHT: Final = 256
_MAX_REQUEST_BYTES: Final = 128 * 1024 * 1024
"""High enough that the cluster's limit applies instead."""


class KafkaSettings(TargetSettings, frozen=True):
    """The cluster and the topic."""

    secrets: ClassVar[frozenset[str]] = frozenset({"sasl_password"})

    brokers: str
    topic: str
    acks: str = "all"
    tls_enable: bool = False
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        parse_brokers(self.brokers, "brokers")
        check_present(self.topic, "topic")
        check_one_of(self.acks, "acks", tuple(_ACKS))  # not 0, which has no acknowledgement
        check_one_of(self.sasl_mechanism, "sasl_mechanism", _MECHANISMS)
        if (self.sasl_username is None) != (self.sasl_password is None):
            raise InvalidInput("sasl_username and sasl_password must be given together", argument="sasl_password")
        if self.sasl_username is not None and not self.tls_enable:
            raise InvalidInput("passwords require tls_enable", argument="tls_enable")
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=self.tls_enable,
            argument="tls_enable",
            expected="tls_enable",
        )


class KafkaTarget(ConnectedTarget[AIOKafkaProducer]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, settings: KafkaSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        self._brokers = parse_brokers(settings.brokers, "brokers")
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            f"kafka://{','.join(self._brokers)}/{settings.topic}",
            tls=files if settings.tls_enable else None,
            secrets=(settings.sasl_password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def _open(self) -> AIOKafkaProducer:
        settings = self._settings
        context: ssl.SSLContext | None = None if self._tls_files is None else self._tls_files.context()
        options: dict[str, Any] = {  # Any: keyword arguments of the library
            "ssl_context": context,
            "security_protocol": "PLAINTEXT" if context is None else "SSL",
            # Shorter than the attempt's timeout: a message sent after it would be out of order.
            "request_timeout_ms": max(1, int(self._deadline * 800)),
        }
        if settings.sasl_username is not None:
            options |= {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": settings.sasl_mechanism,
                "sasl_plain_username": settings.sasl_username,
                "sasl_plain_password": settings.sasl_password,
            }
        producer = AIOKafkaProducer(
            bootstrap_servers=self._brokers,
            client_id="lakebed",
            acks=_ACKS[settings.acks],
            max_request_size=_MAX_REQUEST_BYTES,
            **options,
        )
        try:
            await producer.start()
        except BaseException as error:
            await self._shut_in_time(producer)
            if isinstance(error, KafkaConnectionError):
                await self._raise_cause(options)
            raise
        return producer

    async def _raise_cause(self, options: dict[str, Any]) -> None:
        """Raise the cause of a connection failure. The producer only logs it and raises a generic error."""
        for broker in self._brokers:
            host, _, port = broker.rpartition(":")
            connection = await create_conn(host.strip("[]"), int(port), client_id="lakebed", **options)
            await connection.close()

    async def _shut(self, connection: AIOKafkaProducer) -> None:
        await connection.stop()

    async def _deliver(self, connection: AIOKafkaProducer, message: EventMessage) -> None:
        await connection.send_and_wait(
            self._settings.topic,
            message.body,
            key=message.key.encode(),
            timestamp_ms=message.occurred_ms,
            headers=[
                ("id", message.id.encode()),
                ("name", message.name.encode()),
                ("content-type", message.content_type.encode()),
            ],
        )

    async def _probe(self, connection: AIOKafkaProducer) -> None:
        if not await connection.partitions_for(self._settings.topic):
            raise Unavailable(f"the topic has no partitions. target={self._where}")

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError | InvalidMessageError):
            return Fault.MESSAGE
        if isinstance(error, UnknownTopicOrPartitionError | TopicAuthorizationFailedError):
            return Fault.TEMPORARY
        return Fault.CONNECTION


TYPE: Final = TargetType("kafka", KafkaSettings, KafkaTarget)

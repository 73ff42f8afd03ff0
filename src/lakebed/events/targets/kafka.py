"""Events on a topic of a Kafka cluster.

Spoken with aiokafka, which speaks asyncio itself; the other client has threads and a queue of its own.

A message is delivered when all replicas in sync have it. Its key is `<bucket>/<key>`, so that those of one object stay
in order; its id is the header `id`, in every attempt.
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

from .addresses import check_one_of, check_present, parse_brokers
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

_ACKS: Final = {"all": "all", "-1": "all", "1": 1}
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_AT_ONCE: Final = 256
_MAX_REQUEST_BYTES: Final = 128 * 1024 * 1024
"""The cluster says what is too long, not its client."""


class KafkaSettings(TargetSettings, frozen=True):
    """Where the cluster is, and on which topic."""

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
        # Not 0: nobody would know what arrived.
        check_one_of(self.acks, "acks", tuple(_ACKS))
        check_one_of(self.sasl_mechanism, "sasl_mechanism", _MECHANISMS)
        if (self.sasl_username is None) != (self.sasl_password is None):
            raise InvalidInput("sasl_username and sasl_password come together", argument="sasl_password")
        if self.sasl_username is not None and not self.tls_enable:
            raise InvalidInput("passwords are sent over TLS alone", argument="tls_enable")
        files = TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key)
        if files.are_named and not self.tls_enable:
            raise InvalidInput("files for TLS go with tls_enable", argument="tls_enable")
        files.validate()


class KafkaTarget(ConnectedTarget[AIOKafkaProducer]):
    """Implements `Target`."""

    max_in_flight = _AT_ONCE

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
        options: dict[str, Any] = {  # Any: whatever a connection takes
            "ssl_context": context,
            "security_protocol": "PLAINTEXT" if context is None else "SSL",
            # It gives up before whoever waits for it does: a message that it sent later would come out of turn.
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
                await self._connect_by_hand(options)
            raise
        return producer

    async def _connect_by_hand(self, options: dict[str, Any]) -> None:
        """Raise what is in the way: the library logs it, and tells only that it did not reach anybody."""
        for broker in self._brokers:
            host, _, port = broker.rpartition(":")
            reached = await create_conn(host.strip("[]"), int(port), client_id="lakebed", **options)
            await reached.close()

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
            return Fault.MOMENT
        return Fault.CONNECTION


KIND: Final = TargetType("kafka", KafkaSettings, KafkaTarget)

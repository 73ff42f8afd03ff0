"""The client of stream tables: metadata, scans and partitions, over the Fluss protocol.

    with StreamClient("127.0.0.1:9123", "me", "secret") as streams:
        with streams.scan_kv("fluss", "orders", columns=["id", "total"]) as scan:
            for batch in scan:
                print(batch.num_rows)

Requires pyarrow and numpy (the extra `streams`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError

from .connection import StreamConnection
from .kv_scans import SCANNER_KV_FETCH_MAX_BYTES, KvBatchScanner, PhysicalTable
from .lake import LakeTieringClient
from .messages import Fields, messages, number, read_fields, text, write_fields
from .partitions import find_partition
from .tables import PartitionInfo, read_table

__all__ = ["KvBatchScanner", "StreamClient"]

CREATE_TABLE: Final = 1005
GET_TABLE_INFO: Final = 1007
LIST_PARTITION_INFOS: Final = 1009
GET_METADATA: Final = 1012


class StreamClient:
    """A client of one server, not thread-safe. Use as a context manager, or close it."""

    def __init__(self, address: str, user: str = "", secret: str | Secret | None = None) -> None:
        """`address` is `host:port`, or InvalidInput is raised. Without a secret the client does not authenticate."""
        host, _, port = address.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise InvalidInput(
                f"expected the stream address as HOST:PORT. found={address!r}", argument="address", value=address
            )
        self._bootstrap = host or "127.0.0.1", int(port)
        self._user = user
        self._secret = Secret(secret) if isinstance(secret, str) else secret
        self._connection: StreamConnection | None = None
        self._server: tuple[str, int] | None = None

    def __enter__(self) -> StreamClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def scan_kv(
        self,
        database: str,
        table: str,
        *,
        partition: str | None = None,
        buckets: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        scanner_kv_fetch_max_bytes: int = SCANNER_KV_FETCH_MAX_BYTES,
    ) -> KvBatchScanner:
        """All rows of a primary-key table or of one of its partitions.

        Error codes: TABLE_NOT_EXIST, PARTITION_NOT_EXISTS, NON_PRIMARY_KEY_TABLE.
        """
        physical = self.table(database, table, partition)
        return KvBatchScanner(
            self,
            physical,
            buckets=buckets,
            columns=columns,
            limit=limit,
            scanner_kv_fetch_max_bytes=scanner_kv_fetch_max_bytes,
        )

    def create_table(self, database: str, table: str, document: bytes, *, ignore_if_exists: bool = False) -> None:
        """Create a table from its JSON document.

        Error codes: DATABASE_NOT_EXIST, TABLE_ALREADY_EXIST, INVALID_TABLE, INVALID_CONFIG.
        """
        path = write_fields({1: database, 2: table})
        self.call(CREATE_TABLE, write_fields({1: path, 2: document, 3: ignore_if_exists}))

    def describe(self, database: str, table: str) -> dict[str, Any]:
        """The JSON document of a table, with its `table_id` and `schema_id`. Error codes: TABLE_NOT_EXIST."""
        response = self.call(GET_TABLE_INFO, write_fields({1: write_fields({1: database, 2: table})}))
        document: dict[str, Any] = msgspec.json.decode(text(response, 3))
        return document | {"table_id": number(response, 1), "schema_id": number(response, 2)}

    def partitions(self, database: str, table: str) -> list[str]:
        """The names of a table's partitions. Error codes: TABLE_NOT_EXIST, TABLE_NOT_PARTITIONED."""
        response = self.call(LIST_PARTITION_INFOS, write_fields({1: write_fields({1: database, 2: table})}))
        names = []
        for each in messages(response, 1):
            spec = read_fields(text(each, 2))
            names.append("$".join(text(pair, 2).decode() for pair in messages(spec, 1)))
        return names

    def lake_offsets(self, database: str, table: str) -> dict[tuple[int | None, int], int]:
        """The tiered offsets by partition and bucket; empty without a snapshot. Error codes: TABLE_NOT_EXIST."""
        found = LakeTieringClient(self).latest(database, table)
        return {} if found is None else dict(found.offsets)

    def call(self, key: int, message: bytes) -> Fields:
        """Send a request to the leader and return its response. Raises FlussError."""
        try:
            return self._connected().call(key, message)
        except FlussError as failure:
            if failure.code is ErrorCode.LEADER_NOT_AVAILABLE:
                self.refresh_leader()  # the connection is lost; the next call opens another
            raise

    def refresh_leader(self) -> None:
        """Look up the leader again before the next call."""
        self.close()
        self._server = None

    def _connected(self) -> StreamConnection:
        if self._connection is None:
            if self._server is None:
                self._server = self._find_leader()
            self._connection = StreamConnection(*self._server, self._user, self._secret)
        return self._connection

    def _find_leader(self) -> tuple[str, int]:
        """The leader's address, from the bootstrap server."""
        connection = StreamConnection(*self._bootstrap, self._user, self._secret)
        try:
            response = connection.call(GET_METADATA, b"")
        finally:
            connection.close()
        for server in messages(response, 2):
            return text(server, 2).decode(), number(server, 3)
        raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, "no tablet server available")

    def table(self, database: str, table: str, partition: str | None = None) -> PhysicalTable:
        """A table, or one of its partitions.

        Error codes: TABLE_NOT_EXIST, PARTITION_NOT_EXISTS, TABLE_NOT_PARTITIONED.
        """
        known = read_table(self, database, table)
        if bool(known.partition_keys) != (partition is not None):
            reason = ErrorCode.TABLE_NOT_PARTITIONED if partition is not None else ErrorCode.PARTITION_NOT_EXISTS
            expected = "a table name without a partition" if partition is not None else "the name of a partition"
            raise FlussError(reason, f"expected {expected}. table={database}.{table}")
        if partition is None:
            return known.physical(None)
        found = PartitionInfo(find_partition(self, database, table, partition), partition, tuple(partition.split("$")))
        return replace(known, partitions=(found,)).physical(found.id)

"""Stream tables of a server, over the protocol that their clients speak.

    with StreamClient("127.0.0.1:9123", "me", "secret") as streams:
        with streams.scan_keys("fluss", "orders", columns=["id", "total"]) as scan:
            for batch in scan:
                print(batch.num_rows)

Needs pyarrow and numpy (the extra `streams`).
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
from .kv_scans import SCANNER_KV_FETCH_MAX_BYTES, KvBatchScanner, ScannedTable
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
    """A stream server. For one thread at a time; use as a context, or close it."""

    def __init__(self, address: str, user: str = "", secret: str | Secret | None = None) -> None:
        """`address` is `host:port`, or InvalidInput is raised. Without a secret the client does not authenticate."""
        host, _, port = address.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise InvalidInput(
                f"expected the address of streams as HOST:PORT. found={address!r}", argument="address", value=address
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
        """Let go of the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def scan_keys(
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
        scanned = self.table(database, table, partition)
        return KvBatchScanner(
            self,
            scanned,
            buckets=buckets,
            columns=columns,
            limit=limit,
            scanner_kv_fetch_max_bytes=scanner_kv_fetch_max_bytes,
        )

    def create_table(self, database: str, table: str, document: bytes, *, ignore_if_exists: bool = False) -> None:
        """Make a table as its document says.

        Error codes: DATABASE_NOT_EXIST, TABLE_ALREADY_EXIST, INVALID_TABLE, INVALID_CONFIG.
        """
        path = write_fields({1: database, 2: table})
        self.call(CREATE_TABLE, write_fields({1: path, 2: document, 3: ignore_if_exists}))

    def describe(self, database: str, table: str) -> dict[str, Any]:
        """The document of a table, with its `table_id` and `schema_id`. Error codes: TABLE_NOT_EXIST."""
        answer = self.call(GET_TABLE_INFO, write_fields({1: write_fields({1: database, 2: table})}))
        document: dict[str, Any] = msgspec.json.decode(text(answer, 3))
        return document | {"table_id": number(answer, 1), "schema_id": number(answer, 2)}

    def partitions(self, database: str, table: str) -> list[str]:
        """The names of a table's partitions. Error codes: TABLE_NOT_EXIST, TABLE_NOT_PARTITIONED."""
        answer = self.call(LIST_PARTITION_INFOS, write_fields({1: write_fields({1: database, 2: table})}))
        names = []
        for each in messages(answer, 1):
            spec = read_fields(text(each, 2))
            names.append("$".join(text(pair, 2).decode() for pair in messages(spec, 1)))
        return names

    def lake_offsets(self, database: str, table: str) -> dict[tuple[int | None, int], int]:
        """How far a table is in the lake, by partition and bucket; nothing if it is not there.

        Error codes: TABLE_NOT_EXIST.
        """
        found = LakeTieringClient(self).latest(database, table)
        return {} if found is None else dict(found.offsets)

    def call(self, key: int, message: bytes) -> Fields:
        """The answer of the server that has the buckets. Raises FlussError."""
        try:
            return self._connected().call(key, message)
        except FlussError as failure:
            if failure.code is ErrorCode.LEADER_NOT_AVAILABLE:
                self.refresh_leader()  # the connection is lost; the next call makes another
            raise

    def refresh_leader(self) -> None:
        """Look for the server of buckets before the next call: it may be another, or have started anew."""
        self.close()
        self._server = None

    def _connected(self) -> StreamConnection:
        if self._connection is None:
            if self._server is None:
                self._server = self._find()
            self._connection = StreamConnection(*self._server, self._user, self._secret)
        return self._connection

    def _find(self) -> tuple[str, int]:
        """Where the server of buckets is, asked of the one that we know."""
        connection = StreamConnection(*self._bootstrap, self._user, self._secret)
        try:
            answer = connection.call(GET_METADATA, b"")
        finally:
            connection.close()
        for server in messages(answer, 2):
            return text(server, 2).decode(), number(server, 3)
        raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, "no server has the buckets")

    def table(self, database: str, table: str, partition: str | None = None) -> ScannedTable:
        """What is known of a table, or of one of its partitions.

        Error codes: TABLE_NOT_EXIST, PARTITION_NOT_EXISTS, TABLE_NOT_PARTITIONED.
        """
        known = read_table(self, database, table)
        if bool(known.partition_keys) != (partition is not None):
            reason = ErrorCode.TABLE_NOT_PARTITIONED if partition is not None else ErrorCode.PARTITION_NOT_EXISTS
            raise FlussError(reason, f"name a partition of a table that has some. table={database}.{table}")
        if partition is None:
            return known.scanned(None)
        found = PartitionInfo(find_partition(self, database, table, partition), partition, tuple(partition.split("$")))
        return replace(known, partitions=(found,)).scanned(found.id)

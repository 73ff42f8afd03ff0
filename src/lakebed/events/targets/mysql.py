"""The `mysql` target: a table in MySQL or MariaDB with a row per key, or per event.

Uses aiomysql, the asyncio port of PyMySQL.

A mirror (`namespace`) has the columns `key_hash` (SHA-256 of the key), `key_name` and `value`. A log (`access`) has
`event_id`, `target`, `event_time` and `event_data`; its primary key `(event_id, target)` discards repeated attempts. A
missing table is created when the target is added.

In tables of earlier versions `event_id` alone is unique. There, `event_id` contains the target too, so that each target
has its own rows. Each new connection checks which kind of table it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, unquote

import aiomysql
from pymysql.constants import CLIENT
from pymysql.err import DataError, IntegrityError, MySQLError, OperationalError

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.net.tls import TlsFiles

from .addresses import check_one_of, check_tls_files
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault, describe_error
from .formats import Format, occurred_at
from .seam import EventMessage, TargetSettings, TargetType

_DSN: Final = re.compile(
    r"(?:mysql://)?(?P<user>[^:@/]+)(?::(?P<password>[^@]*))?@"
    r"(?:tcp\((?P<inner>[^()]+)\)|(?P<outer>[^/()@]+))/(?P<database>[A-Za-z0-9_$-]{1,64})(?:\?(?P<query>.*))?"
)
_TABLE: Final = re.compile(r"(?:(?P<database>[A-Za-z_][A-Za-z0-9_]{0,63})\.)?(?P<table>[A-Za-z_][A-Za-z0-9_]{0,63})")
_BOOLEANS: Final = {"true": True, "false": False}
_CONNECT_SECONDS: Final = 10.0
_OVERHEAD_BYTES: Final = 1024
"""The size of a statement without its document."""

_TABLES: Final = {
    Format.NAMESPACE: (
        "CREATE TABLE {table} (key_hash CHAR(64) CHARACTER SET ascii NOT NULL PRIMARY KEY,"
        " key_name VARCHAR(3072) NOT NULL, value JSON NOT NULL)"
        " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC"
    ),
    Format.ACCESS: (
        # Binary collation: target names are case-sensitive.
        "CREATE TABLE {table} (event_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " target VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, event_time DATETIME(6) NOT NULL,"
        " event_data JSON NOT NULL, PRIMARY KEY (event_id, target)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    ),
}
_COLUMNS: Final = {Format.NAMESPACE: "key_hash, key_name, value", Format.ACCESS: "event_id, event_time, event_data"}

_UNIQUE_BY_ID_ALONE: Final = (
    "SELECT index_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
    " AND non_unique = 0 GROUP BY index_name HAVING count(*) = 1 AND max(column_name) = 'event_id'"
)

CR_SSL: Final = 2026
"""The client's error code for a failure of TLS."""

_REJECTED: Final = frozenset({1153, 1301, 1366, 1406, 3140, 3141, 4025})
"""A packet, result or value that is too long, invalid text or JSON, or a violated constraint."""
_TABLE_CHANGED: Final = frozenset({1054, 1364})
"""Unknown column, or no default value: the table has changed since the connection was opened."""
_DUPLICATE: Final = 1062
_CONNECTION_ERRORS: Final = frozenset({1040, 1053, 1152, 1184, 2002, 2003, 2006, 2013, 2014, 2027, 2055})


class MysqlSettings(TargetSettings, frozen=True):
    """The database and the table."""

    secrets: ClassVar[frozenset[str]] = frozenset({"dsn_string"})

    dsn_string: str
    table: str = "lakebed_events"
    format: str = Format.ACCESS
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None
    max_open_connections: int = 2

    def validate(self) -> None:
        """Raises InvalidInput."""
        dsn = MySqlDsn(self.dsn_string)
        check_one_of(self.format, "format", tuple(Format))
        if not _TABLE.fullmatch(self.table):
            raise InvalidInput("table must be [database.]name", argument="table", value=self.table[:140])
        if not 1 <= self.max_open_connections <= 64:
            raise InvalidInput("max_open_connections must be from 1 to 64", argument="max_open_connections")
        check_tls_files(
            TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key),
            encrypted=dsn.tls is not False,
            argument="dsn_string",
            expected="tls=true",
        )


class MySqlDsn:
    """A parsed DSN: `[mysql://]user[:password]@tcp(host[:port])/database[?tls=true|false]`."""

    def __init__(self, dsn: str) -> None:
        """Raises InvalidInput, without the DSN."""
        found = _DSN.fullmatch(dsn)
        if found is None:
            raise InvalidInput(
                "dsn_string must be [mysql://]user:password@tcp(host:port)/database[?tls=true]", argument="dsn_string"
            )
        host, _, port = (found["inner"] or found["outer"]).rpartition(":")
        if not host:
            host, port = port, "3306"
        options = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
        tls = options.pop("tls", None)
        if options or (tls is not None and tls not in _BOOLEANS):
            raise InvalidInput("the only parameter of dsn_string is tls=true or tls=false", argument="dsn_string")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidInput("dsn_string has an invalid port", argument="dsn_string")
        self.user, self.password = unquote(found["user"]), unquote(found["password"] or "")
        self.host, self.port, self.database = host.strip("[]"), int(port), found["database"]
        self.tls: bool | None = None if tls is None else _BOOLEANS[tls]

    def __repr__(self) -> str:
        return f"MySqlDsn({self.host}:{self.port}/{self.database})"


class _Connection(aiomysql.Connection):  # type: ignore[misc]  # aiomysql comes without types
    """Never sends credentials without TLS if TLS is configured: it checks the server's offer first."""

    async def _request_authentication(self) -> None:
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise OperationalError(CR_SSL, "the server does not offer TLS")
        await super()._request_authentication()

    def abort(self) -> None:
        """Close the socket without a farewell, in any state of the protocol."""
        if self._writer is not None:
            self._writer.transport.abort()
        self.close()


class _ConnectionPool:
    """The connections of one target. `max_in_flight` of the target bounds their number."""

    def __init__(self, options: dict[str, Any]) -> None:  # Any: keyword arguments of the connection
        self._options = options
        self._idle: list[_Connection] = []
        self.max_bytes = 0
        """The server's maximum packet size."""
        self.is_unique_by_id_alone = False

    async def execute(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows. A connection with an incomplete response is closed, not reused."""
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(sql, values)
                rows = list(await cursor.fetchall())
        except IntegrityError:
            # A complete response: the connection can run the next statement.
            self._idle.append(connection)
            raise
        except BaseException:
            connection.abort()
            raise
        self._idle.append(connection)
        return rows

    async def _connect(self) -> _Connection:
        connection = _Connection(**self._options)
        try:
            await connection._connect()
        except BaseException:
            connection.abort()
            raise
        return connection

    async def close(self) -> None:
        """Close all idle connections, and wait until they are closed."""
        idle, self._idle = self._idle, []
        for connection in idle:
            writer = connection._writer
            with contextlib.suppress(OSError, MySQLError):
                await connection.ensure_closed()
                await writer.wait_closed()


class MysqlTarget(ConnectedTarget[_ConnectionPool]):
    """Implements `EventTarget`."""

    def __init__(self, settings: MysqlSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        dsn = self._dsn = MySqlDsn(settings.dsn_string)
        self._format = Format(settings.format)
        self.max_in_flight = settings.max_open_connections
        table = _TABLE.fullmatch(settings.table)
        if table is None:
            raise InvalidInput("table must be [database.]name", argument="table")
        self._database, self._name = table["database"] or dsn.database, table["table"]
        self._table = f"`{self._database}`.`{self._name}`"
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            f"mysql://{dsn.host}:{dsn.port}/{dsn.database}",
            tls=files if files.are_named or dsn.tls else None,
            secrets=(dsn.password,),
            deadline_seconds=deadline_seconds,
        )

    async def prepare(self) -> None:
        """Create the table if it does not exist. Raises Unavailable."""
        try:
            async with asyncio.timeout(self._deadline):
                pool = await self._open()
                try:
                    # Checked first: the user may lack the CREATE privilege.
                    found = await pool.execute(
                        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                        (self._database, self._name),
                    )
                    if not found:
                        await pool.execute(_TABLES[self._format].format(table=self._table))
                finally:
                    await self._shut_in_time(pool)
        except (MySQLError, OSError) as error:
            reason = describe_error(error, self._secrets)
            raise Unavailable(f"cannot create the table. target={self._where} reason={reason}") from None

    async def _open(self) -> _ConnectionPool:
        dsn = self._dsn
        pool = _ConnectionPool(
            {
                "host": dsn.host,
                "port": dsn.port,
                "user": dsn.user,
                "password": dsn.password,
                "db": dsn.database,
                "charset": "utf8mb4",
                "ssl": None if self._tls_files is None else self._tls_files.context(),
                "connect_timeout": _CONNECT_SECONDS,
                "autocommit": True,
            }
        )
        ((pool.max_bytes,),) = await pool.execute("SELECT @@max_allowed_packet")
        if self._format is Format.ACCESS:
            found = await pool.execute(_UNIQUE_BY_ID_ALONE, (self._database, self._name))
            pool.is_unique_by_id_alone = bool(found)
        return pool

    async def _shut(self, connection: _ConnectionPool) -> None:
        await connection.close()

    async def _deliver(self, connection: _ConnectionPool, message: EventMessage) -> None:
        value = message.body.decode()
        # Quotes and backslashes are doubled in a statement.
        length = len(message.body) + message.body.count(b'"') + message.body.count(b"\\") + 3 * len(message.key)
        if length + _OVERHEAD_BYTES > connection.max_bytes:
            # The server would close the connection.
            raise Undeliverable(f"message too long. target={self._where} maximum={connection.max_bytes}")
        if self._format is Format.ACCESS:
            await self._add(connection, message, value)
        else:
            await connection.execute(*self._mirror_statement(message, value))

    async def _add(self, connection: _ConnectionPool, message: EventMessage, value: str) -> None:
        """Insert the row, unless an earlier attempt of this target did."""
        if connection.is_unique_by_id_alone:
            unique = {"event_id": message.deduplication_key}
        else:
            unique = {"event_id": message.id, "target": message.target}
        row = unique | {"event_time": occurred_at(message).replace(tzinfo=None), "event_data": value}
        try:
            # Neither IGNORE nor ON DUPLICATE KEY UPDATE: both hide violations of other unique keys.
            await connection.execute(
                f"INSERT INTO {self._table} ({', '.join(row)})"  # noqa: S608  # checked
                f" VALUES ({', '.join(['%s'] * len(row))})",
                tuple(row.values()),
            )
        except IntegrityError as error:
            if error.args[0] != _DUPLICATE or not await self._exists(connection, unique):
                raise

    async def _exists(self, connection: _ConnectionPool, unique: dict[str, str]) -> bool:
        found = await connection.execute(
            f"SELECT {', '.join(unique)} FROM {self._table}"  # noqa: S608  # checked
            f" WHERE {' AND '.join(f'{name} = %s' for name in unique)}",
            tuple(unique.values()),
        )
        # Compared again here: the column's collation may ignore case.
        return tuple(unique.values()) in found

    def _mirror_statement(self, message: EventMessage, value: str) -> tuple[str, tuple[object, ...]]:
        key_hash = hashlib.sha256(message.key.encode()).hexdigest()
        if message.is_removal:
            return f"DELETE FROM {self._table} WHERE key_hash = %s", (key_hash,)  # noqa: S608  # checked
        sql = (
            f"INSERT INTO {self._table} (key_hash, key_name, value) VALUES (%s, %s, %s)"  # noqa: S608  # checked
            " ON DUPLICATE KEY UPDATE value = VALUES(value)"
        )
        return sql, (key_hash, message.key, value)

    async def _probe(self, connection: _ConnectionPool) -> None:
        await connection.execute(f"SELECT {_COLUMNS[self._format]} FROM {self._table} LIMIT 0")  # noqa: S608

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, UnicodeError):
            return Fault.MESSAGE
        if not isinstance(error, MySQLError):
            return Fault.CONNECTION
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code in _REJECTED or isinstance(error, DataError | IntegrityError):
            return Fault.MESSAGE
        needs_reconnect = not code or code in _CONNECTION_ERRORS or code in _TABLE_CHANGED
        return Fault.CONNECTION if needs_reconnect else Fault.TEMPORARY


async def prepare(settings: MysqlSettings) -> None:
    """Create the table if it does not exist. Raises Unavailable."""
    await MysqlTarget(settings).prepare()


TYPE: Final = TargetType("mysql", MysqlSettings, MysqlTarget, prepare)

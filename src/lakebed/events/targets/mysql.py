"""Events in a table of a MySQL or MariaDB database: a row a key, or a row an event.

Spoken with aiomysql, PyMySQL's twin for asyncio, kept by aio-libs.

The mirror (`namespace`) has the columns `key_hash` (SHA-256 of the key), `key_name` and `value`. The log (`access`) has
`event_id`, `target`, `event_time` and `event_data`; a repeated attempt of a target adds no row, because of the
primary key `(event_id, target)`. A table that is not there is made when the target is added.

In tables of earlier versions `event_id` alone is unique. There, the target writes the event id and its own name into
`event_id`, so that each target has its own rows. The shape of the table is looked up with each new connection.
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

from .addresses import check_one_of
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
"""What a statement has besides the document: key, names, time."""

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
"""The client's own number for a connection that cannot be secured."""

_REFUSED: Final = frozenset({1153, 1301, 1366, 1406, 3140, 3141, 4025})
"""Too long a packet, result or value; text that is none; no JSON; a rule of the table."""
_CHANGED: Final = frozenset({1054, 1364})
"""No such column, a column without a default: the shape of the table changed since the connection was opened."""
_DUPLICATE: Final = 1062
_LOST: Final = frozenset({1040, 1053, 1152, 1184, 2002, 2003, 2006, 2013, 2014, 2027, 2055})


class MysqlSettings(TargetSettings, frozen=True):
    """Where the database is, and which table."""

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
        place = MySqlAddress(self.dsn_string)
        check_one_of(self.format, "format", tuple(Format))
        if not _TABLE.fullmatch(self.table):
            raise InvalidInput("table is [database.]name", argument="table", value=self.table[:140])
        if not 1 <= self.max_open_connections <= 64:
            raise InvalidInput("max_open_connections is from 1 to 64", argument="max_open_connections")
        files = TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key)
        if files.are_named and place.tls is False:
            raise InvalidInput("files for TLS do not go with tls=false", argument="dsn_string")
        files.validate()


class MySqlAddress:
    """What the DSN says: `[mysql://]user[:password]@tcp(host[:port])/database[?tls=true|false]`."""

    def __init__(self, dsn: str) -> None:
        """Raises InvalidInput, which does not tell the DSN."""
        found = _DSN.fullmatch(dsn)
        if found is None:
            raise InvalidInput(
                "dsn_string is [mysql://]user:password@tcp(host:port)/database[?tls=true]", argument="dsn_string"
            )
        host, _, port = (found["inner"] or found["outer"]).rpartition(":")
        if not host:
            host, port = port, "3306"
        options = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
        tls = options.pop("tls", None)
        if options or (tls is not None and tls not in _BOOLEANS):
            raise InvalidInput("dsn_string has no parameter but tls, which is true or false", argument="dsn_string")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidInput("the port in dsn_string is none", argument="dsn_string")
        self.user, self.password = unquote(found["user"]), unquote(found["password"] or "")
        self.host, self.port, self.database = host.strip("[]"), int(port), found["database"]
        self.tls: bool | None = None if tls is None else _BOOLEANS[tls]

    def __repr__(self) -> str:
        return f"MySqlAddress({self.host}:{self.port}/{self.database})"


class _Line(aiomysql.Connection):  # type: ignore[misc]  # aiomysql comes without types
    """Tells nobody who it is in the clear where TLS is wanted: a server that does not offer it is refused before."""

    async def _request_authentication(self) -> None:
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise OperationalError(CR_SSL, "the server does not secure its connections")
        await super()._request_authentication()

    def abort(self) -> None:
        """Hang up without a word: somebody was cut off amid a conversation, or there was none."""
        if self._writer is not None:
            self._writer.transport.abort()
        self.close()


class _Lines:
    """Connections of one target: as many as are used at once, which is for the target to bound."""

    def __init__(self, options: dict[str, Any]) -> None:  # Any: whatever the connection's constructor takes
        self._options = options
        self._idle: list[_Line] = []
        self.max_bytes = 0
        """How much the server takes in one piece."""
        self.is_unique_by_id_alone = False

    async def execute(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement. A connection on which it was not finished is closed, not given to the next."""
        line = self._idle.pop() if self._idle else await self._connect()
        try:
            async with line.cursor() as cursor:
                await cursor.execute(sql, values)
                rows = list(await cursor.fetchall())
        except IntegrityError:
            # A complete response: the connection can run the next statement.
            self._idle.append(line)
            raise
        except BaseException:
            line.abort()
            raise
        self._idle.append(line)
        return rows

    async def _connect(self) -> _Line:
        line = _Line(**self._options)
        try:
            await line._connect()
        except BaseException:
            line.abort()
            raise
        return line

    async def close(self) -> None:
        """Take leave of the server, and wait until it has heard."""
        idle, self._idle = self._idle, []
        for line in idle:
            writer = line._writer
            with contextlib.suppress(OSError, MySQLError):
                await line.ensure_closed()
                await writer.wait_closed()


class MysqlTarget(ConnectedTarget[_Lines]):
    """Implements `Target`."""

    def __init__(self, settings: MysqlSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._place = MySqlAddress(settings.dsn_string)
        self._format = Format(settings.format)
        self.max_in_flight = settings.max_open_connections
        named = _TABLE.fullmatch(settings.table)
        if named is None:
            raise InvalidInput("table is [database.]name", argument="table")
        self._database, self._name = named["database"] or self._place.database, named["table"]
        self._table = f"`{self._database}`.`{self._name}`"
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            f"mysql://{self._place.host}:{self._place.port}/{self._place.database}",
            tls=files if files.are_named or self._place.tls else None,
            secrets=(self._place.password,),
            deadline_seconds=deadline_seconds,
        )

    async def prepare(self) -> None:
        """Make the table, unless there is one. Raises Unavailable."""
        try:
            async with asyncio.timeout(self._deadline):
                lines = await self._open()
                try:
                    # Looked for first: who may write to a table need not be one who may make tables.
                    found = await lines.execute(
                        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                        (self._database, self._name),
                    )
                    if not found:
                        await lines.execute(_TABLES[self._format].format(table=self._table))
                finally:
                    await self._shut_in_time(lines)
        except (MySQLError, OSError) as error:
            reason = describe_error(error, self._secrets)
            raise Unavailable(f"cannot make the table. target={self._where} reason={reason}") from None

    async def _open(self) -> _Lines:
        place = self._place
        lines = _Lines(
            {
                "host": place.host,
                "port": place.port,
                "user": place.user,
                "password": place.password,
                "db": place.database,
                "charset": "utf8mb4",
                "ssl": None if self._tls_files is None else self._tls_files.context(),
                "connect_timeout": _CONNECT_SECONDS,
                "autocommit": True,
            }
        )
        ((lines.max_bytes,),) = await lines.execute("SELECT @@max_allowed_packet")
        if self._format is Format.ACCESS:
            found = await lines.execute(_UNIQUE_BY_ID_ALONE, (self._database, self._name))
            lines.is_unique_by_id_alone = bool(found)
        return lines

    async def _shut(self, connection: _Lines) -> None:
        await connection.close()

    async def _deliver(self, connection: _Lines, message: EventMessage) -> None:
        value = message.body.decode()
        # Quotes and backslashes are written twice in a statement.
        length = len(message.body) + message.body.count(b'"') + message.body.count(b"\\") + 3 * len(message.key)
        if length + _OVERHEAD_BYTES > connection.max_bytes:
            # The server would hang up on it.
            raise Undeliverable(f"the message is too long. target={self._where} maximum={connection.max_bytes}")
        if self._format is Format.ACCESS:
            await self._add(connection, message, value)
        else:
            await connection.execute(*self._replacement(message, value))

    async def _add(self, connection: _Lines, message: EventMessage, value: str) -> None:
        """Insert the row, unless an earlier attempt of this target did."""
        if connection.is_unique_by_id_alone:
            unique = {"event_id": message.deduplication_key}
        else:
            unique = {"event_id": message.id, "target": message.target}
        row = unique | {"event_time": occurred_at(message).replace(tzinfo=None), "event_data": value}
        try:
            # Neither IGNORE nor ON DUPLICATE KEY UPDATE: both succeed when any other unique key refuses the row.
            await connection.execute(
                f"INSERT INTO {self._table} ({', '.join(row)})"  # noqa: S608  # checked
                f" VALUES ({', '.join(['%s'] * len(row))})",
                tuple(row.values()),
            )
        except IntegrityError as error:
            if error.args[0] != _DUPLICATE or not await self._has(connection, unique):
                raise

    async def _has(self, connection: _Lines, unique: dict[str, str]) -> bool:
        found = await connection.execute(
            f"SELECT {', '.join(unique)} FROM {self._table}"  # noqa: S608  # checked
            f" WHERE {' AND '.join(f'{name} = %s' for name in unique)}",
            tuple(unique.values()),
        )
        # Compared again here: the column's collation may ignore case.
        return tuple(unique.values()) in found

    def _replacement(self, message: EventMessage, value: str) -> tuple[str, tuple[object, ...]]:
        key_hash = hashlib.sha256(message.key.encode()).hexdigest()
        if message.is_removal:
            return f"DELETE FROM {self._table} WHERE key_hash = %s", (key_hash,)  # noqa: S608  # checked
        sql = (
            f"INSERT INTO {self._table} (key_hash, key_name, value) VALUES (%s, %s, %s)"  # noqa: S608  # checked
            " ON DUPLICATE KEY UPDATE value = VALUES(value)"
        )
        return sql, (key_hash, message.key, value)

    async def _probe(self, connection: _Lines) -> None:
        await connection.execute(f"SELECT {_COLUMNS[self._format]} FROM {self._table} LIMIT 0")  # noqa: S608

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, UnicodeError):
            return Fault.MESSAGE
        if not isinstance(error, MySQLError):
            return Fault.CONNECTION
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code in _REFUSED or isinstance(error, DataError | IntegrityError):
            return Fault.MESSAGE
        return Fault.CONNECTION if code in _LOST or code in _CHANGED or not code else Fault.MOMENT


async def prepare(settings: MysqlSettings) -> None:
    """Make the table, unless there is one. Raises Unavailable."""
    await MysqlTarget(settings).prepare()


KIND: Final = TargetType("mysql", MysqlSettings, MysqlTarget, prepare)

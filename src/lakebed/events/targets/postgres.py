"""The `postgres` target: a table in PostgreSQL with a row per key, or per event.

Uses asyncpg, like the metadata store.

A mirror (`namespace`) has the columns `key` and `value`. A log (`access`) has `event_id`, `target`, `event_name`,
`key`, `value` and `queued_at_ms`; its primary key `(event_id, target)` discards repeated attempts. A missing table is
created when the target is added.

In tables of earlier versions `event_id` alone is unique. There, `event_id` contains the target too, so that each target
has its own rows. Each new connection pool checks which kind of table it is.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import parse_qsl

import asyncpg

from lakebed.core.errors import InvalidInput, Unavailable
from lakebed.net.tls import TlsFiles

from .addresses import check_one_of, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault, describe_error
from .formats import Format
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"postgres": 5432, "postgresql": 5432}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 10.0

_TABLES: Final = {
    Format.NAMESPACE: "CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, value JSONB NOT NULL)",
    Format.ACCESS: (
        "CREATE TABLE IF NOT EXISTS {table} (event_id TEXT NOT NULL, target TEXT NOT NULL, event_name TEXT NOT NULL,"
        " key TEXT NOT NULL, value JSONB NOT NULL, queued_at_ms BIGINT NOT NULL, PRIMARY KEY (event_id, target))"
    ),
}
_COLUMNS: Final = {Format.NAMESPACE: "key, value", Format.ACCESS: "event_id, event_name, key, value, queued_at_ms"}

_IS_UNIQUE_BY_ID_ALONE: Final = """
SELECT EXISTS (
    SELECT 1 FROM pg_index i
    WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL AND i.indnkeyatts = 1
        AND i.indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = i.indrelid AND attname = 'event_id')
)
"""
_TABLE_CHANGED: Final = frozenset({"42P10", "42703"})
"""No such unique key, no such column: the table has changed since the connection was opened."""


class PostgresSettings(TargetSettings, frozen=True):
    """The database and the table."""

    secrets: ClassVar[frozenset[str]] = frozenset({"dsn_string"})

    dsn_string: str
    table: str
    format: str = Format.NAMESPACE
    tls_required: bool = False
    tls_ca: str | None = None
    tls_client_cert: str | None = None
    tls_client_key: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        _Dsn(self.dsn_string)
        check_one_of(self.format, "format", tuple(Format))
        if not _NAME.fullmatch(self.table):
            raise InvalidInput("table must be letters, digits and _", argument="table", value=self.table[:80])
        TlsFiles(self.tls_ca, self.tls_client_cert, self.tls_client_key).validate()


class _Dsn:
    """A parsed DSN."""

    def __init__(self, dsn: str) -> None:
        address = parse_address(dsn, "dsn_string", _PORTS, credentials=True, path=True, query=True)
        options = dict(parse_qsl(address.query, keep_blank_values=True))
        schema = options.pop("search_path", "public")
        database = address.path.removeprefix("/")
        if options:
            raise InvalidInput("the only parameter of dsn_string is search_path", argument="dsn_string")
        if not _NAME.fullmatch(schema):
            raise InvalidInput("search_path must be the name of one schema", argument="dsn_string")
        if not address.username or not database:
            raise InvalidInput("dsn_string must name a user and a database", argument="dsn_string")
        self.address, self.schema, self.database = address, schema, database


class _Connection(NamedTuple):
    pool: Any  # Any: asyncpg comes without types
    is_unique_by_id_alone: bool


class PostgresTarget(ConnectedTarget[_Connection]):
    """Implements `EventTarget`."""

    max_in_flight = _CONNECTIONS

    def __init__(self, settings: PostgresSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        dsn = self._dsn = _Dsn(settings.dsn_string)
        self._format = Format(settings.format)
        self._table = f'"{dsn.schema}"."{settings.table}"'
        files = TlsFiles(settings.tls_ca, settings.tls_client_cert, settings.tls_client_key)
        super().__init__(
            f"{dsn.address.where}/{dsn.database}",
            tls=files if files.are_named or settings.tls_required else None,
            secrets=(dsn.address.password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def prepare(self) -> None:
        """Create the table if it does not exist. Raises Unavailable."""
        try:
            async with asyncio.timeout(self._deadline):
                connection = await self._open()
                try:
                    # Checked first: the user may lack the CREATE privilege.
                    if await connection.pool.fetchval("SELECT to_regclass($1)", self._table) is None:
                        await connection.pool.execute(_TABLES[self._format].format(table=self._table))
                finally:
                    await self._shut_in_time(connection)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            reason = describe_error(error, self._secrets)
            raise Unavailable(f"cannot create the table. target={self._where} reason={reason}") from None

    async def _open(self) -> _Connection:
        dsn = self._dsn
        pool = await asyncpg.create_pool(
            host=dsn.address.host,
            port=dsn.address.port,
            user=dsn.address.username,
            # Never None: asyncpg would use a password from the environment or a password file.
            password=dsn.address.password or "",
            database=dsn.database,
            # False rather than asyncpg's default, which uses TLS without verification.
            ssl=False if self._tls_files is None else self._tls_files.context(),
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=_CONNECT_SECONDS,
            command_timeout=self._deadline,
        )
        try:
            is_log = self._format is Format.ACCESS
            return _Connection(pool, is_log and await pool.fetchval(_IS_UNIQUE_BY_ID_ALONE, self._table))
        except BaseException:
            pool.terminate()
            raise

    async def _shut(self, connection: _Connection) -> None:
        try:
            await connection.pool.close()
        except BaseException:
            connection.pool.terminate()
            raise

    async def _deliver(self, connection: _Connection, message: EventMessage) -> None:
        pool, value = connection.pool, message.body.decode()
        if self._format is Format.ACCESS:
            row = {"event_name": message.name, "key": message.key, "value": value, "queued_at_ms": message.occurred_ms}
            if connection.is_unique_by_id_alone:
                unique = {"event_id": message.deduplication_key}
            else:
                unique = {"event_id": message.id, "target": message.target}
            row = unique | row
            await pool.execute(
                f"INSERT INTO {self._table} ({', '.join(row)})"  # noqa: S608  # checked
                f" VALUES ({', '.join(f'${number}' for number in range(1, len(row) + 1))})"
                f" ON CONFLICT ({', '.join(unique)}) DO NOTHING",
                *row.values(),
            )
        elif message.is_removal:
            await pool.execute(f"DELETE FROM {self._table} WHERE key = $1", message.key)  # noqa: S608  # checked
        else:
            await pool.execute(
                f"INSERT INTO {self._table} (key, value) VALUES ($1, $2::jsonb)"  # noqa: S608  # checked
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                *(message.key, value),
            )

    async def _probe(self, connection: _Connection) -> None:
        await connection.pool.fetch(f"SELECT {_COLUMNS[self._format]} FROM {self._table} LIMIT 0")  # noqa: S608  # checked

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, asyncpg.PostgresError):
            # 22: invalid data; 23: constraint violation; 54: too long.
            state = str(error.sqlstate or "")
            if state[:2] in ("22", "23", "54"):
                return Fault.MESSAGE
            return Fault.CONNECTION if state[:2] in ("08", "57") or state in _TABLE_CHANGED else Fault.TEMPORARY
        if isinstance(error, UnicodeError | asyncpg.DataError):
            return Fault.MESSAGE
        return Fault.CONNECTION


async def prepare(settings: PostgresSettings) -> None:
    """Create the table if it does not exist. Raises Unavailable."""
    await PostgresTarget(settings).prepare()


TYPE: Final = TargetType("postgres", PostgresSettings, PostgresTarget, prepare)

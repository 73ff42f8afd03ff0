"""The ten steps of a run: from no bucket to rows read back and the catalog's own routes asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .clients import catalog_client, store_client
from .expectations import NotConforming, expect
from .options import ConformTarget
from .probes import probe_catalog
from .rest import CatalogCalls
from .vended import VendedKeys, probe_scope, read_keys

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.table import Table

STEPS: Final = 10
ROWS: Final = 2

Tell = Callable[[int, str], None]
"""Called as each step begins, with its number."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What of the run is wanted."""

    replaces: bool = False
    probes_catalog: bool = True
    cleans_up: bool = False


@dataclass(slots=True)
class RunOutcome:
    """How far a run came: for its record."""

    passed: bool = False
    row_count: int = 0
    metadata_location: str = ""
    cleanup: str = "not-requested"


def run_sequence(target: ConformTarget, course: RunOptions, outcome: RunOutcome, tell: Tell) -> None:
    """All steps; `outcome` is filled as they happen. Raises NotConforming at the first that fails."""
    try:
        with ExitStack() as stack:
            _Run(target, course, outcome, tell, stack).play()
    except _client_errors() as error:
        raise NotConforming(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    outcome.passed = True


def _client_errors() -> tuple[type[Exception], ...]:
    """What clients raise for an answer that they cannot go on with. PyIceberg's have no common base."""
    import pyiceberg.exceptions
    from botocore.exceptions import BotoCoreError, ClientError
    from pyarrow.lib import ArrowException
    from pydantic import ValidationError
    from requests import RequestException

    named = vars(pyiceberg.exceptions).values()
    of_catalog = [kind for kind in named if isinstance(kind, type) and issubclass(kind, Exception)]
    return (ClientError, BotoCoreError, RequestException, ArrowException, ValidationError, OSError, *of_catalog)


class _Run:
    def __init__(
        self, target: ConformTarget, course: RunOptions, outcome: RunOutcome, tell: Tell, stack: ExitStack
    ) -> None:
        self._target = target
        self._course = course
        self._outcome = outcome
        self._tell = tell
        self._stack = stack
        self._store = stack.enter_context(closing(store_client(target, target.access_key, target.secret_key.reveal())))
        self._calls = stack.enter_context(CatalogCalls(target))
        self._identifier = (*target.namespace.split("."), target.table)

    def play(self) -> None:
        target = self._target
        self._tell(1, f"bucket {target.bucket}")
        self._make_bucket()
        self._tell(2, "enable the bucket for tables")
        self._calls.call("PUT", f"buckets/{target.bucket}")
        self._tell(3, f"open the catalog {target.resolved.catalog_uri}")
        catalog = self._open()
        self._tell(4, "drop what is in the way" if self._course.replaces else "nothing is replaced")
        if self._course.replaces and catalog.table_exists(self._identifier):
            catalog.drop_table(self._identifier)
        self._tell(5, f"create {'.'.join(self._identifier)}")
        table = self._create(catalog)
        try:
            self._use(catalog, table)
        except Exception:
            # A run that failed has left its table, too; what is told is why it failed.
            if self._course.cleans_up:
                with suppress(*_client_errors()):
                    self._clean_up(catalog)
            raise
        if self._course.cleans_up:
            self._clean_up(catalog)

    def _use(self, catalog: RestCatalog, table: Table) -> None:
        if self._target.uses_vended_credentials:
            self._tell(6, "get keys from the catalog")
            keys = self._vended_keys(table)
            self._tell(7, f"use them inside and outside of {keys.prefix}")
            probe_scope(self._target, keys, self._store)
            catalog = self._open()
            table = catalog.load_table(self._identifier)
            used = table.io.properties.get("s3.session-token")
            expect(used, "the client reaches the table's files with keys of the catalog")
        else:
            self._tell(6, "no keys from the catalog: the client has its own")
            self._tell(7, "no keys from the catalog to try")
        self._tell(8, f"append {ROWS} rows")
        table.append(_rows())
        self._tell(9, "load and scan")
        table = catalog.load_table(self._identifier)
        self._outcome.row_count = table.scan().to_arrow().num_rows
        self._outcome.metadata_location = table.metadata_location
        expect(self._outcome.row_count == ROWS, f"{ROWS} rows are read back. found={self._outcome.row_count}")
        if self._course.probes_catalog:
            self._tell(10, "ask the catalog's own routes")
            probe_catalog(self._calls, self._target)
        else:
            self._tell(10, "the catalog's own routes are left out")

    def _open(self) -> RestCatalog:
        return self._stack.enter_context(closing(catalog_client(self._target)))

    def _make_bucket(self) -> None:
        from botocore.exceptions import ClientError

        bucket, region = self._target.bucket, self._target.region
        try:
            self._store.head_bucket(Bucket=bucket)
        except ClientError as error:
            status: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status != 404:
                raise
            placed = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            self._store.create_bucket(Bucket=bucket, **placed)

    def _create(self, catalog: RestCatalog) -> Table:
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField, StringType

        catalog.create_namespace_if_not_exists(self._identifier[:-1])
        schema = Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "payload", StringType(), required=True),
        )
        table: Table = catalog.create_table(self._identifier, schema)
        return table

    def _vended_keys(self, table: Table) -> VendedKeys:
        answer = self._calls.get(f"{self._calls.table_path}/credentials")
        keys = read_keys(answer, self._target.bucket, table.location())
        expect(keys.access_key != self._target.access_key, "the keys are not the caller's own")
        return keys

    def _clean_up(self, catalog: RestCatalog) -> None:
        self._outcome.cleanup = "failed"
        catalog.drop_table(self._identifier)
        catalog.drop_namespace(self._identifier[:-1])
        self._outcome.cleanup = "dropped"


def _rows() -> Any:  # Any: PyArrow has no types
    import pyarrow as pa

    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("payload", pa.string(), nullable=False)])
    return pa.Table.from_pylist([{"id": 1, "payload": "first"}, {"id": 2, "payload": "second"}], schema=schema)

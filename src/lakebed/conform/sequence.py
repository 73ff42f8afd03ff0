"""The ten steps of a run: create a bucket and a table, write and read rows, probe catalog routes."""

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
from .vended import IssuedCredentials, probe_scope, read_credentials

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.table import Table

STEPS: Final = 10
ROWS: Final = 2

ProgressCallback = Callable[[int, str], None]
"""Called at the start of each step, with its number and description."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run."""

    replaces: bool = False
    probes_catalog: bool = True
    cleans_up: bool = False


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a run, for its record."""

    passed: bool = False
    row_count: int = 0
    metadata_location: str = ""
    cleanup: str = "not-requested"


def run_sequence(target: ConformTarget, options: RunOptions, outcome: RunOutcome, progress: ProgressCallback) -> None:
    """Run all steps and update `outcome`. Raises NotConforming at the first failure."""
    try:
        with ExitStack() as stack:
            _Run(target, options, outcome, progress, stack).run()
    except _client_errors() as error:
        raise NotConforming(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    outcome.passed = True


def _client_errors() -> tuple[type[Exception], ...]:
    """Errors of the clients. PyIceberg's have no common base class."""
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
        self,
        target: ConformTarget,
        options: RunOptions,
        outcome: RunOutcome,
        progress: ProgressCallback,
        stack: ExitStack,
    ) -> None:
        self._target = target
        self._options = options
        self._outcome = outcome
        self._progress = progress
        self._stack = stack
        self._store = stack.enter_context(closing(store_client(target, target.access_key, target.secret_key.reveal())))
        self._calls = stack.enter_context(CatalogCalls(target))
        self._identifier = (*target.namespace.split("."), target.table)

    def run(self) -> None:
        target = self._target
        self._progress(1, f"bucket {target.bucket}")
        self._make_bucket()
        self._progress(2, "enable the bucket for tables")
        self._calls.call("PUT", f"buckets/{target.bucket}")
        self._progress(3, f"open the catalog {target.resolved.catalog_uri}")
        catalog = self._open()
        self._progress(4, "drop an existing table" if self._options.replaces else "no existing table is replaced")
        if self._options.replaces and catalog.table_exists(self._identifier):
            catalog.drop_table(self._identifier)
        self._progress(5, f"create {'.'.join(self._identifier)}")
        table = self._create(catalog)
        try:
            self._use(catalog, table)
        except Exception:
            # Errors of the cleanup are ignored: the cause is reported.
            if self._options.cleans_up:
                with suppress(*_client_errors()):
                    self._clean_up(catalog)
            raise
        if self._options.cleans_up:
            self._clean_up(catalog)

    def _use(self, catalog: RestCatalog, table: Table) -> None:
        if self._target.uses_vended_credentials:
            self._progress(6, "request vended credentials")
            credentials = self._vended_credentials(table)
            self._progress(7, f"use them in and outside of {credentials.prefix}")
            probe_scope(self._target, credentials, self._store)
            catalog = self._open()
            table = catalog.load_table(self._identifier)
            used = table.io.properties.get("s3.session-token")
            expect(used, "the client accesses files with vended credentials")
        else:
            self._progress(6, "skipped: no vended credentials, the client uses its own")
            self._progress(7, "skipped: no vended credentials")
        self._progress(8, f"append {ROWS} rows")
        table.append(_rows())
        self._progress(9, "load and scan")
        table = catalog.load_table(self._identifier)
        self._outcome.row_count = table.scan().to_arrow().num_rows
        self._outcome.metadata_location = table.metadata_location
        expect(self._outcome.row_count == ROWS, f"{ROWS} rows are read back. found={self._outcome.row_count}")
        if self._options.probes_catalog:
            self._progress(10, "probe catalog routes")
            probe_catalog(self._calls, self._target)
        else:
            self._progress(10, "skipped: catalog routes")

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
            location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            self._store.create_bucket(Bucket=bucket, **location)

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

    def _vended_credentials(self, table: Table) -> IssuedCredentials:
        response = self._calls.get(f"{self._calls.table_path}/credentials")
        credentials = read_credentials(response, self._target.bucket, table.location())
        expect(credentials.access_key != self._target.access_key, "vended credentials have a new access key")
        return credentials

    def _clean_up(self, catalog: RestCatalog) -> None:
        self._outcome.cleanup = "failed"
        catalog.drop_table(self._identifier)
        catalog.drop_namespace(self._identifier[:-1])
        self._outcome.cleanup = "dropped"


def _rows() -> Any:  # Any: PyArrow has no types
    import pyarrow as pa

    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("payload", pa.string(), nullable=False)])
    return pa.Table.from_pylist([{"id": 1, "payload": "first"}, {"id": 2, "payload": "second"}], schema=schema)

"""`lakebed select`: SQL over an object, all objects under a prefix, a table, or a stream table.

Queries over objects run on the server. Queries over tables and streams run in this process, which reads table
files with vended credentials.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lakebed.client import LakebedClient, SelectResult, SelectStats, TableRef
from lakebed.client.selects import Words
from lakebed.core.errors import InvalidInput, NoSuchKey

from ..server_access import add_access_flags, read_access, read_warehouse
from ..settings_flags import read_settings
from .input_format import SOURCE_FLAGS, add_source_flags, source_words
from .output import OUTPUTS, target_words, write_records
from .stream_query import SCHEME, STREAM_FLAGS, add_stream_flags, records_of_stream
from .table_query import SnapshotSelector, records_of_table

_MAX_CHECKED: Final = 1000
"""Number of objects whose names are checked for a common format: a page of a listing."""
_SCHEMES: Final = ("s3", "s3a", "s3n")
_OF_OBJECTS: Final = ("range", "version_id", "stats", *SOURCE_FLAGS)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="s3://BUCKET/KEY; with a trailing /, all objects with the prefix; NAMESPACE.TABLE of a --warehouse; or"
        " stream://DATABASE.TABLE",
    )
    parser.add_argument("expression", metavar="SQL", help="such as: SELECT s._1 FROM S3Object s LIMIT 5")
    parser.add_argument("--output", choices=OUTPUTS, default=OUTPUTS[0], help="output format")
    parser.add_argument("--stats", action="store_true", help="print bytes scanned, processed and returned on stderr")
    one = parser.add_argument_group("one object")
    one.add_argument(
        "--range", metavar="START-END", help="only records that begin in this byte range, such as 0-1048575"
    )
    one.add_argument("--version-id", metavar="ID", help="this version of the object")
    table = parser.add_argument_group(
        "a table", "The current snapshot, or an earlier one."
    ).add_mutually_exclusive_group()
    table.add_argument("--snapshot", metavar="ID", type=int, help="this snapshot")
    table.add_argument("--ref", metavar="NAME", help="this branch or tag")
    table.add_argument("--as-of", metavar="TIME", help="the snapshot at this time, such as 2026-01-02T03:04:05Z")
    add_stream_flags(parser)
    add_source_flags(parser)
    add_access_flags(parser, warehouse=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the query and print its records as they arrive."""
    settings = read_settings(arguments).settings
    access = read_access(arguments, settings)
    moment = SnapshotSelector(arguments.snapshot, arguments.ref, arguments.as_of)
    if arguments.source.startswith(SCHEME):
        _refuse(arguments, "a stream table", *_OF_OBJECTS, "snapshot", "ref", "as_of")
        write_records(records_of_stream(access, settings, arguments), arguments.output)
        return 0
    _refuse(arguments, "other sources than stream tables", *STREAM_FLAGS)
    if "://" not in arguments.source:
        table = TableRef.parse(read_warehouse(arguments), arguments.source)
        _refuse(arguments, "a table", *_OF_OBJECTS)
        write_records(records_of_table(access, table, moment, arguments.expression, arguments.output), arguments.output)
        return 0
    if moment != SnapshotSelector():
        raise InvalidInput("--snapshot, --ref and --as-of apply to tables only", argument="source")
    bucket, key = read_address(arguments.source)
    with LakebedClient(access=access) as client:
        objects = _Objects(client, bucket, arguments)
        is_one = key and not key.endswith("/")
        write_records(objects.one(key) if is_one else objects.many(key), arguments.output)
        if arguments.stats:
            print(objects.stats(), file=sys.stderr)
    return 0


def read_address(text: str) -> tuple[str, str]:
    """Parse `s3://BUCKET/KEY` into bucket and key or prefix. Raises InvalidInput."""
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in _SCHEMES or not bucket:
        raise InvalidInput(f"expected s3://BUCKET/KEY. found={text!r}", argument="source")
    return bucket, key


def read_range(text: str | None) -> tuple[int | None, int | None] | None:
    """Parse `START-END`, `START-` or `-COUNT` (the last bytes). Raises InvalidInput."""
    if text is None:
        return None
    start, separator, end = text.partition("-")
    numbers = [part for part in (start, end) if part]
    if not separator or not numbers or not all(part.isascii() and part.isdigit() for part in numbers):
        raise InvalidInput(f"expected START-END, START- or -COUNT. found={text!r}", argument="--range")
    return int(start) if start else None, int(end) if end else None


def _refuse(arguments: argparse.Namespace, source: str, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) not in (None, False):
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{flag} does not apply to {source}", argument=flag)


def _uncompressed(words: Words, arguments: argparse.Namespace) -> Words:
    """Without the compression by name: the server derives it per object."""
    return {name: word for name, word in words.items() if name != "CompressionType" or arguments.compression}


class _Objects:
    """Runs queries over objects of a bucket, with statistics."""

    def __init__(self, client: LakebedClient, bucket: str, arguments: argparse.Namespace) -> None:
        self._client = client
        self._bucket = bucket
        self._arguments = arguments
        self._counts = SelectStats()

    def one(self, key: str) -> Iterator[bytes]:
        """The records of one object."""
        arguments = self._arguments
        return self._read(
            self._client.selects.run(
                self._bucket,
                key,
                arguments.expression,
                source_words(key, arguments),
                target_words(arguments.output),
                scan_range=read_range(arguments.range),
                version=arguments.version_id,
            )
        )

    def many(self, prefix: str) -> Iterator[bytes]:
        """The records of all objects with a prefix, in key order."""
        arguments = self._arguments
        _refuse(arguments, "many objects", "range", "version_id")
        listed = self._client.selects.objects(self._bucket, prefix)
        found = islice((one.key for one in listed if one.size and not one.key.endswith("/")), _MAX_CHECKED)
        kinds = {key: _uncompressed(source_words(key, arguments), arguments) for key in found}
        if not kinds:
            raise NoSuchKey(f"no objects with data. prefix=s3://{self._bucket}/{prefix}")
        (first, words), *others = kinds.items()
        for key, other in others:
            if other != words:
                raise InvalidInput(
                    f"objects have different formats: give --format, or a longer prefix. keys={first!r},{key!r}",
                    argument="source",
                )
        target = target_words(arguments.output)
        return self._read(self._client.selects.run_prefix(self._bucket, prefix, arguments.expression, words, target))

    def stats(self) -> str:
        """The statistics, for display."""
        counts = self._counts
        return f"scanned={counts.scanned} processed={counts.processed} returned={counts.returned}"

    def _read(self, selection: SelectResult) -> Iterator[bytes]:
        try:
            yield from selection
        finally:
            selection.close()
        self._counts = selection.counts

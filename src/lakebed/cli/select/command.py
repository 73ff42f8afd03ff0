"""`lakebed select`: questions in SQL about an object, all objects under a prefix, a table, or a stream table.

It speaks to a running server, as any client does. Objects are read by the server, which sends what was asked for; the
files of tables are read here, with the keys that the catalog hands out, and so are the records of streams.
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

_LOOKED_AT: Final = 1000
"""Names of objects that are looked at to know their format: a page of a listing."""
_SCHEMES: Final = ("s3", "s3a", "s3n")
_OF_OBJECTS: Final = ("range", "version_id", "stats", *SOURCE_FLAGS)


def configure(parser: argparse.ArgumentParser) -> None:
    """What is asked about what, and how the answer is shown."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="s3://BUCKET/KEY; with a / at its end, all objects in it; NAMESPACE.TABLE of a --warehouse; or"
        " stream://DATABASE.TABLE",
    )
    parser.add_argument("expression", metavar="SQL", help="such as: SELECT s._1 FROM S3Object s LIMIT 5")
    parser.add_argument("--output", choices=OUTPUTS, default=OUTPUTS[0], help="how records are printed")
    parser.add_argument("--stats", action="store_true", help="say on stderr how many bytes of objects it took")
    one = parser.add_argument_group("one object")
    one.add_argument("--range", metavar="START-END", help="only records that begin at these bytes, such as 0-1048575")
    one.add_argument("--version-id", metavar="ID", help="this version of it")
    table = parser.add_argument_group("a table", "As it is now, or as it was.").add_mutually_exclusive_group()
    table.add_argument("--snapshot", metavar="ID", type=int, help="as of this snapshot")
    table.add_argument("--ref", metavar="NAME", help="as of this branch or tag")
    table.add_argument("--as-of", metavar="TIME", help="as it was then, such as 2026-01-02T03:04:05Z")
    add_stream_flags(parser)
    add_source_flags(parser)
    add_access_flags(parser, warehouse=True)


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print the records as they come."""
    settings = read_settings(arguments).settings
    access = read_access(arguments, settings)
    moment = SnapshotSelector(arguments.snapshot, arguments.ref, arguments.as_of)
    if arguments.source.startswith(SCHEME):
        _refuse(arguments, "a stream table", *_OF_OBJECTS, "snapshot", "ref", "as_of")
        write_records(records_of_stream(access, settings, arguments), arguments.output)
        return 0
    _refuse(arguments, "what is no stream table", *STREAM_FLAGS)
    if "://" not in arguments.source:
        table = TableRef.parse(read_warehouse(arguments), arguments.source)
        _refuse(arguments, "a table", *_OF_OBJECTS)
        write_records(records_of_table(access, table, moment, arguments.expression, arguments.output), arguments.output)
        return 0
    if moment != SnapshotSelector():
        raise InvalidInput("--snapshot, --ref and --as-of are of tables", argument="source")
    bucket, key = read_address(arguments.source)
    with LakebedClient(access=access) as client:
        objects = _Objects(client, bucket, arguments)
        is_one = key and not key.endswith("/")
        write_records(objects.one(key) if is_one else objects.many(key), arguments.output)
        if arguments.stats:
            print(objects.stats(), file=sys.stderr)
    return 0


def read_address(text: str) -> tuple[str, str]:
    """The bucket and the key, or the beginning of keys, of `s3://BUCKET/KEY`. Raises InvalidInput."""
    scheme, _, place = text.partition("://")
    bucket, _, key = place.partition("/")
    if scheme not in _SCHEMES or not bucket:
        raise InvalidInput(f"an object is named as s3://BUCKET/KEY. found={text!r}", argument="source")
    return bucket, key


def read_range(text: str | None) -> tuple[int | None, int | None] | None:
    """`START-END`, `START-` for all from there on, `-COUNT` for the last bytes. Raises InvalidInput."""
    if text is None:
        return None
    start, separator, end = text.partition("-")
    numbers = [part for part in (start, end) if part]
    if not separator or not numbers or not all(part.isascii() and part.isdigit() for part in numbers):
        raise InvalidInput(f"a range is START-END, START- or -COUNT. found={text!r}", argument="--range")
    return int(start) if start else None, int(end) if end else None


def _refuse(arguments: argparse.Namespace, of_what: str, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) not in (None, False):
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{flag} means nothing for {of_what}", argument=flag)


def _uncompressed(words: Words, arguments: argparse.Namespace) -> Words:
    """Without what only the name of one object says: the server looks at the name of each."""
    return {name: word for name, word in words.items() if name != "CompressionType" or arguments.compression}


class _Objects:
    """The objects of a bucket; and what asking them took."""

    def __init__(self, client: LakebedClient, bucket: str, arguments: argparse.Namespace) -> None:
        self._client = client
        self._bucket = bucket
        self._arguments = arguments
        self._asked = SelectStats()

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
        """The records of all objects whose keys begin with that, in the order of their keys."""
        arguments = self._arguments
        _refuse(arguments, "many objects", "range", "version_id")
        listed = self._client.selects.objects(self._bucket, prefix)
        found = islice((one.key for one in listed if one.size and not one.key.endswith("/")), _LOOKED_AT)
        kinds = {key: _uncompressed(source_words(key, arguments), arguments) for key in found}
        if not kinds:
            raise NoSuchKey(f"no objects with anything in them. prefix=s3://{self._bucket}/{prefix}")
        (first, words), *others = kinds.items()
        for key, other in others:
            if other != words:
                raise InvalidInput(
                    f"objects of several formats: give --format, or a longer prefix. keys={first!r},{key!r}",
                    argument="source",
                )
        target = target_words(arguments.output)
        return self._read(self._client.selects.run_prefix(self._bucket, prefix, arguments.expression, words, target))

    def stats(self) -> str:
        """What it took."""
        taken = self._asked
        return f"scanned={taken.scanned} processed={taken.processed} returned={taken.returned}"

    def _read(self, selection: SelectResult) -> Iterator[bytes]:
        try:
            yield from selection
        finally:
            selection.close()
        self._asked = selection.counts

"""`lakebed select`: questions in SQL about an object, about all objects under a prefix, or about a table.

It speaks to a running server, as any client does. Objects are read by the server, which sends what was asked for; the
files of tables are read here, with the keys that the catalog hands out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import astuple
from typing import Final

from lakebed.client import LakebedClient, SelectCounts, Selection, TableRef
from lakebed.client.selects import Words
from lakebed.core.errors import InvalidInput, NoSuchKey

from .select_many import records_of_many
from .select_output import OUTPUTS, target_words, write_records
from .select_source import SOURCE_FLAGS, add_source_flags, source_words
from .select_table import Moment, records_of_table
from .server_access import add_access_flags, read_access, read_warehouse
from .settings_flags import read_settings

_SCHEMES: Final = ("s3", "s3a", "s3n")


def configure(parser: argparse.ArgumentParser) -> None:
    """What is asked about what, and how the answer is shown."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="s3://BUCKET/KEY; with a / at its end, all objects in it; or NAMESPACE.TABLE of a --warehouse",
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
    add_source_flags(parser)
    add_access_flags(parser, warehouse=True)


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print the records as they come."""
    access = read_access(arguments, read_settings(arguments).settings)
    moment = Moment(arguments.snapshot, arguments.ref, arguments.as_of)
    if "://" not in arguments.source:
        table = TableRef.parse(read_warehouse(arguments), arguments.source)
        _refuse(arguments, "a table", "range", "version_id", "stats", *SOURCE_FLAGS)
        write_records(records_of_table(access, table, moment, arguments.expression, arguments.output), arguments.output)
        return 0
    if moment != Moment():
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


class _Objects:
    """The objects of a bucket, asked one after the other; and what that took."""

    def __init__(self, client: LakebedClient, bucket: str, arguments: argparse.Namespace) -> None:
        self._client = client
        self._bucket = bucket
        self._arguments = arguments
        self._asked: list[Selection] = []

    def one(self, key: str) -> Iterator[bytes]:
        """The records of one object."""
        selection = self._ask(key, self._arguments.expression, target_words(self._arguments.output))
        try:
            yield from selection
        finally:
            selection.close()

    def many(self, prefix: str) -> Iterator[bytes]:
        """The records of all objects whose keys begin with that, in the order of their keys."""
        _refuse(self._arguments, "many objects", "range", "version_id")
        listed = self._client.selects.objects(self._bucket, prefix)
        found = [one for one in listed if one.size and not one.key.endswith("/")]
        if not found:
            raise NoSuchKey(f"no objects with anything in them. prefix=s3://{self._bucket}/{prefix}")
        kinds = [source_words(one.key, self._arguments) for one in found]  # all of them, before any is asked
        has_columns = not {"JSON", "Avro"} & kinds[0].keys()
        expression, output = self._arguments.expression, self._arguments.output
        return records_of_many(found, expression, output, self._ask, has_columns=has_columns)

    def stats(self) -> str:
        """What all that was asked took."""
        totals = map(sum, zip(*(astuple(one.counts) for one in self._asked), strict=True))
        taken = SelectCounts(*totals)
        return (
            f"objects={len(self._asked)} scanned={taken.scanned} processed={taken.processed} returned={taken.returned}"
        )

    def _ask(self, key: str, expression: str, target: Words) -> Selection:
        selection = self._client.selects.run(
            self._bucket,
            key,
            expression,
            source_words(key, self._arguments),
            target,
            scan_range=read_range(self._arguments.range),
            version=self._arguments.version_id,
        )
        self._asked.append(selection)
        return selection

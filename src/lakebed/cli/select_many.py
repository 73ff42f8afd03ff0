"""A question about many objects: each is asked; where that is not enough, their records are brought together here."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakebed.client.selects import ListedObject, Selection, Words
from lakebed.core.errors import InvalidInput, NotSupported

from .select_output import RecordLimit, limited, local_output, target_words

if TYPE_CHECKING:
    import pyarrow as pa

_JSON: Words = {"JSON": {}}
_ARROW: Words = {"Arrow": {}}


class Ask(Protocol):
    """Asks one object."""

    def __call__(self, key: str, expression: str, target: Words) -> Selection:
        """Its records, written as `target` says."""
        ...


def records_of_many(
    found: Sequence[ListedObject], expression: str, output: str, ask: Ask, *, has_columns: bool
) -> Iterator[bytes]:
    """The records of a statement over all these objects; `has_columns` if they are of a format with columns.

    What is said of single records is said of each object in turn. What is said of all of them together (sums, groups,
    an order) is worked out here, of the records that the condition lets through. Raises SelectFailure, NotSupported.
    """
    try:
        from lakebed.select.statement import read_statement
    except ImportError as error:
        raise not_installed() from error
    statement = read_statement(expression)
    if not statement.aggregates and not statement.order:
        limit = None if statement.limit is None else RecordLimit(statement.limit, quoted=output == "csv")
        return _one_by_one(found, expression, output, ask, limit)
    return _streamed(found, expression, output, ask) if has_columns else _gathered(found, expression, output, ask)


def not_installed() -> NotSupported:
    """The answer where the engine is not there."""
    return NotSupported('it takes the engine of selects here, too: pip install "lakebed[select]"')


def _one_by_one(
    found: Sequence[ListedObject], expression: str, output: str, ask: Ask, limit: RecordLimit | None
) -> Iterator[bytes]:
    for one in found:
        if limit is not None and limit.is_reached:
            return
        selection = ask(one.key, expression, target_words(output))
        try:
            yield from limited(selection, limit)
        finally:
            selection.close()


def _gathered(found: Sequence[ListedObject], expression: str, output: str, ask: Ask) -> Iterator[bytes]:
    """Records that are as each is, with no columns that all of them share: gathered as they are."""
    try:
        from lakebed.select.local import records_of, select_gathered
    except ImportError as error:
        raise not_installed() from error
    records = records_of(expression)
    with tempfile.TemporaryDirectory(prefix="lakebed-select-") as folder:
        gathered = Path(folder) / "records.json"
        with gathered.open("wb") as file:
            for one in found:
                file.writelines(ask(one.key, records, _JSON))
        yield from select_gathered(expression, gathered, local_output(output), spill=Path(folder))


def _streamed(found: Sequence[ListedObject], expression: str, output: str, ask: Ask) -> Iterator[bytes]:
    """Objects with columns: their records go through as they come."""
    try:
        import pyarrow as pa
        from pyarrow import ipc

        from lakebed.select.local import records_of, select_batches
    except ImportError as error:
        raise not_installed() from error
    records = records_of(expression)
    schema: pa.Schema | None = None

    def batches() -> Iterator[tuple[str, pa.RecordBatch]]:
        nonlocal schema
        for one in found:
            with io.BufferedReader(_Pieces(ask(one.key, records, _ARROW))) as answer:
                stream = ipc.open_stream(pa.PythonFile(answer, mode="r"))
                # Of an object without records for us, types of its columns are not known: others' are better.
                schema = schema or stream.schema
                for batch in stream:
                    yield one.key, batch

    coming = batches()
    first = next(coming, None)
    columns = schema if first is None else first[1].schema

    def read(_: list[str]) -> Iterator[pa.RecordBatch]:
        for key, batch in coming if first is None else chain([first], coming):
            yield _conformed(batch, columns, key)

    with tempfile.TemporaryDirectory(prefix="lakebed-select-") as folder:
        yield from select_batches(expression, columns, read, local_output(output), spill=Path(folder), filtered=True)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, key: str) -> pa.RecordBatch:
    """A batch with the columns of the first object, by their names. Raises InvalidInput."""
    import pyarrow as pa

    try:
        return batch.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowException) as error:
        raise InvalidInput(
            f"the object has other columns than the first one. key={key!r} first={', '.join(schema.names)}",
            argument="address",
        ) from error


class _Pieces(io.RawIOBase):
    """Records on their way, as a file."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._pieces = iter(selection)
        self._held = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of buffers, only views are ever given
        """The next bytes; none at the end."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        """Hang up."""
        if not self.closed:
            self._selection.close()
        super().close()

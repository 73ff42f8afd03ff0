"""Parses manifests of format 1, 2 and 3 from bytes.

Fields are matched by Iceberg field id, by name if the writer omitted ids. Inherited values of an entry are filled in:
snapshot id, sequence numbers, first row id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lakebed.core.errors import InvalidInput

from ..avro.container import AvroContainer, open_container
from ..avro.limits import DEFAULT_LIMITS, ReadLimits
from ..avro.records import records_of
from .fields import entry_decoder
from .model import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry, ManifestFile

__all__ = ["ManifestReader", "open_manifest"]

_CONTENT: Final = DataFile._fields.index("content")
_SPEC_ID: Final = DataFile._fields.index("spec_id")
_PARTITION: Final = DataFile._fields.index("partition")
_RECORD_COUNT: Final = DataFile._fields.index("record_count")
_FIRST_ROW_ID: Final = DataFile._fields.index("first_row_id")
_STATUSES: Final = frozenset(status.value for status in EntryStatus)
_FILE_CONTENTS: Final = frozenset(content.value for content in FileContent)
_ADDED: Final = EntryStatus.ADDED.value
_DELETED: Final = EntryStatus.DELETED.value
_DATA: Final = FileContent.DATA.value


def open_manifest(data: bytes, *, limits: ReadLimits = DEFAULT_LIMITS) -> ManifestReader:
    """Read a manifest's header. Raises InvalidInput if it is invalid, TooLarge above the limits."""
    return ManifestReader(open_container(data, limits))


class ManifestReader:
    """An open manifest: the header is read, the entries are not."""

    __slots__ = ("_container", "content", "format_version", "partition_spec_id")

    def __init__(self, container: AvroContainer) -> None:
        claims = container.metadata
        self._container = container
        # Values of the header; None if missing, as in format 1.
        self.format_version = _number(claims.get("format-version"))
        self.partition_spec_id = _number(claims.get("partition-spec-id"))
        self.content = _HEADER_CONTENTS.get(claims.get("content", b""))

    @property
    def decoded_bytes(self) -> int:
        """The number of bytes decompressed so far."""
        return self._container.decoded_bytes

    def entries(
        self,
        manifest: ManifestFile,
        *,
        columns: frozenset[int] | None = None,
        partition_fields: Sequence[int] | None = None,
    ) -> Iterator[ManifestEntry]:
        """Yield the entries, with values inherited from the manifest's line in the list. Keeps one block in memory at a
        time.

        `columns` selects the columns whose statistics are kept: None keeps all, an empty set skips all, which is
        faster. Partition values are in the order of the manifest's own spec, or of the given partition field ids, with
        None for a field that the manifest lacks. Raises InvalidInput, TooLarge.
        """
        fields = None if partition_fields is None else tuple(partition_fields)
        container = self._container
        next_row_id = manifest.first_row_id
        inherited = manifest.sequence_number
        for values in records_of(container, entry_decoder(container.schema, columns, fields, container.limits)):
            status, snapshot_id, sequence_number, file_sequence_number, file = values
            if status not in _STATUSES:
                raise InvalidInput(f"manifest entry has an unknown status. status={status}")
            if file[_CONTENT] is None:
                file[_CONTENT] = _DATA
            elif file[_CONTENT] not in _FILE_CONTENTS:
                raise InvalidInput(f"manifest entry has a file of unknown content. content={file[_CONTENT]}")
            file[_SPEC_ID] = manifest.partition_spec_id
            file[_PARTITION] = tuple(file[_PARTITION])
            # Sequence number 0 is that of manifests of format 1, whose entries have no number.
            if status == _ADDED or inherited == 0:
                if sequence_number is None:
                    sequence_number = inherited
                if file_sequence_number is None:
                    file_sequence_number = inherited
            elif sequence_number is None:
                raise InvalidInput("manifest entry has no sequence number, which is optional for added entries only")
            if next_row_id is None or file[_CONTENT] != _DATA:
                # A manifest without a first row id is older than row lineage; row ids of its entries are ignored.
                file[_FIRST_ROW_ID] = None
            elif file[_FIRST_ROW_ID] is None and status != _DELETED:
                file[_FIRST_ROW_ID] = next_row_id
                next_row_id += file[_RECORD_COUNT]
            if snapshot_id is None:
                snapshot_id = manifest.added_snapshot_id
            yield ManifestEntry(status, snapshot_id, sequence_number, file_sequence_number, DataFile._make(file))


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else None


_HEADER_CONTENTS: Final = {b"data": ManifestContent.DATA, b"deletes": ManifestContent.DELETES}

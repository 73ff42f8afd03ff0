"""Lists the files in a table's directories, with the table's vended credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..spark.iceberg_jvm import each, load_table
from ..table_ref import CatalogTable
from .table_shape import location_of, properties_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Table properties that direct writers outside of the table's location."""

_SCHEMES: Final = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An existing file."""

    path: str
    bytes: int
    modified_ms: int


def directories_of(spark: SparkSession, table: CatalogTable) -> list[str]:
    """A table's directories: its location, and the paths of its properties. None is inside another."""
    properties = properties_of(spark, table)
    places = [location_of(spark, table), *(properties[name] for name in PATH_PROPERTIES if properties.get(name))]
    own: list[str] = []
    for place in places:
        if not any(is_inside(place, other) for other in own):
            own = [other for other in own if not is_inside(other, place)]
            own.append(place.rstrip("/"))
    return own


def list_files(spark: SparkSession, table: CatalogTable, location: str) -> Iterator[ListedFile]:
    """All files below a directory of the table. One LIST per 1,000 files. Raises NotSupported."""
    files = load_table(spark, table, "listing files").io()
    return listed(files, location)


def listed(files: Any, location: str) -> Iterator[ListedFile]:  # Any: a FileIO of Iceberg's
    """All files below a location, as an Iceberg FileIO lists them."""
    for found in each(files.listPrefix(location.rstrip("/") + "/")):
        yield ListedFile(str(found.location()), int(found.size()), int(found.createdAtMillis()))


def is_inside(place: str, directory: str) -> bool:
    """Whether a location is the directory or inside it, regardless of the S3 scheme."""
    return (key_of(place).rstrip("/") + "/").startswith(key_of(directory).rstrip("/") + "/")


def key_of(path: str) -> str:
    """Bucket and key of a file, without the S3 scheme."""
    for scheme in _SCHEMES:
        if path.startswith(scheme):
            return path[len(scheme) :]
    return path

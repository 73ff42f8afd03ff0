"""What the catalog has a client repeat about a table that is not on record: which table, and where its files are.

There are two such times. A staged table is written before it is there, and keys to its files may run out meanwhile.
And a table that is purged by its engine is dropped first: the engine deletes the files of a table that was.

The client may say what it likes, so this decides nothing: see `DataAccess.of_unrecorded`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.tables.locations import PATH_PROPERTIES
from lakebed.wire.http.message import Request

PARAMETER: Final = "whereabouts"

_ID: Final = re.compile(r"[0-9a-f]{32}")


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    table: str
    location: str
    paths: dict[str, str]


_decode: Final = msgspec.json.Decoder(_Claims).decode


@dataclass(frozen=True, slots=True)
class UnregisteredTableHint:
    """A table by its id, and the directories that it has."""

    table: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """As the query of a path that a client is told. Plain letters, so that nobody encodes them another way."""
        paths = {name: path for name in PATH_PROPERTIES if (path := self.properties.get(name))}
        document = msgspec.json.encode(_Claims(self.table, self.location, paths))
        return f"?{PARAMETER}={base64.urlsafe_b64encode(document).rstrip(b'=').decode()}"


def hint_of_request(request: Request) -> UnregisteredTableHint | None:
    """What the client repeats; None if nothing. Raises InvalidInput."""
    text = request.query.get(PARAMETER)
    if text is None:
        return None
    try:
        claims = _decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise _unreadable(text) from error
    if not _ID.fullmatch(claims.table) or not claims.paths.keys() <= set(PATH_PROPERTIES):
        raise _unreadable(text)
    return UnregisteredTableHint(claims.table, claims.location, claims.paths)


def _unreadable(text: str) -> InvalidInput:
    return InvalidInput(f"{PARAMETER} are repeated as the catalog gave them", argument=PARAMETER, value=text[:100])

"""A query parameter that identifies a table without a catalog entry, and its directories.

The catalog adds it to the URLs of credential refresh and remote signing for two cases. A staged table is written before
its commit, and its vended credentials may expire before that. An engine that purges a table deletes its files after
dropping the table.

Clients can forge the parameter, so it grants nothing: see `DataAccess.of_unregistered`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from lakebed.catalog.locations.directories import PATH_PROPERTIES
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Request

PARAMETER: Final = "whereabouts"

_ID: Final = re.compile(r"[0-9a-f]{32}")


class _HintFields(msgspec.Struct, frozen=True, array_like=True):
    table: str
    location: str
    paths: dict[str, str]


_decode: Final = msgspec.json.Decoder(_HintFields).decode


@dataclass(frozen=True, slots=True)
class UnregisteredTableHint:
    """A table by its id, and its directories."""

    table: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """The query of a URL, in characters that all clients encode alike."""
        paths = {name: path for name in PATH_PROPERTIES if (path := self.properties.get(name))}
        document = msgspec.json.encode(_HintFields(self.table, self.location, paths))
        return f"?{PARAMETER}={base64.urlsafe_b64encode(document).rstrip(b'=').decode()}"


def hint_of_request(request: Request) -> UnregisteredTableHint | None:
    """The hint in a request; None without one. Raises InvalidInput."""
    text = request.query.get(PARAMETER)
    if text is None:
        return None
    try:
        claims = _decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise _invalid(text) from error
    if not _ID.fullmatch(claims.table) or not claims.paths.keys() <= set(PATH_PROPERTIES):
        raise _invalid(text)
    return UnregisteredTableHint(claims.table, claims.location, claims.paths)


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(
        f"invalid {PARAMETER}: send the value from the catalog unchanged", argument=PARAMETER, value=text[:100]
    )

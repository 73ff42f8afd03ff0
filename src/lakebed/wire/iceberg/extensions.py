"""What table buckets add to the contract: how their documents are read, and what serves them.

Fields are spelled as in the contract, with dashes; the spelling of S3 Tables' own API, in camel case, is understood
too. A field that is not known is refused: whoever sends it means something that would not be done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from lakebed.core.errors import InvalidInput
from lakebed.core.parsing import parse_body
from lakebed.tables.bridges.service import Bridges
from lakebed.tables.bridges.syncing import Syncing
from lakebed.tables.diagnostics.examination import Examination
from lakebed.tables.diagnostics.recovery import Recovery
from lakebed.tables.diagnostics.survey import Surveys
from lakebed.tables.importing import Imports
from lakebed.tables.pointers import PointerMoves
from lakebed.tables.refs import References
from lakebed.tables.rollback import Rollback

from ..json.request import JsonRequest, parse_document

T = TypeVar("T")

Word = Annotated[str, Meta(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""An id or token: a line of text."""

Location = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]

TABLE_PATH: Final = "/v1/{warehouse}/namespaces/{namespace}/tables/{table}"

_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


@dataclass(frozen=True, slots=True)
class TableExtensions:
    """The use cases behind the extensions."""

    refs: References
    pointers: PointerMoves
    rollback: Rollback
    imports: Imports
    examination: Examination
    recovery: Recovery
    surveys: Surveys
    bridges: Bridges
    syncing: Syncing


class ExtensionDocument(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A body with the fields that it names, and no others."""


class NoDocument(ExtensionDocument):
    """A body that says nothing."""


async def read_extension(request: JsonRequest, kind: type[T]) -> T:
    """The body; an empty one is an empty object. Raises InvalidInput that says where it is wrong."""
    return await parse_body(partial(parse_extension, kind=kind), request.body)


def parse_extension(body: bytes, kind: type[T]) -> T:
    """A body as `read_extension` reads it. Raises InvalidInput that says where it is wrong."""
    fields = parse_document(body or b"{}", dict[str, msgspec.Raw])
    spelled: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        plain = _HUMP.sub(r"-\1", name).lower() if "-" not in name else name
        if plain in spelled:
            raise InvalidInput(f"the request document has a field twice: {plain}", argument=plain)
        spelled[plain] = value
    return parse_document(msgspec.json.encode(spelled), kind)

"""Strict request documents: field names in either spelling, and no unknown fields.

Field names have dashes as in Iceberg's specification; the camel case of the S3 Tables API is accepted too. Unknown
fields are rejected, because an ignored setting is worse than an error.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from lakebed.core.errors import InvalidInput
from lakebed.core.json.parsing import parse_body

from .request import JsonRequest, parse_document

T = TypeVar("T")

Word = Annotated[str, Meta(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""An id or token without control characters."""

Location = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]

_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


class StrictDocument(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A body without unknown fields."""


async def read_strict_document(request: JsonRequest, kind: type[T]) -> T:
    """Parse the body; an empty one is an empty object. Raises InvalidInput with the path of the error."""
    return await parse_body(partial(parse_strict_document, kind=kind), request.body)


async def check_no_fields(request: JsonRequest) -> None:
    """Raise InvalidInput unless the body is empty or an object without fields."""
    await read_strict_document(request, StrictDocument)


def parse_strict_document(body: bytes, kind: type[T]) -> T:
    """Parse a body like `read_strict_document`. Raises InvalidInput with the path of the error."""
    fields = parse_document(body or b"{}", dict[str, msgspec.Raw])
    spelled: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        plain = _HUMP.sub(r"-\1", name).lower() if "-" not in name else name
        if plain in spelled:
            raise InvalidInput(f"duplicate field in the request document: {plain}", argument=plain)
        spelled[plain] = value
    return parse_document(msgspec.json.encode(spelled), kind)

"""JSON schemas of policy types that users define: which are taken, and how a content is held against one.

Schemas come from whoever may define a type, and run in the server. So one must not reach anything outside itself, and
must not cost more than its size: it refers to its own parts only and never to one that it is inside of, what it amounts
to with its references written out is bounded, and patterns are matched in linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from lakebed.core.errors import InvalidPolicy

from .json_documents import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    Json,
    JsonPath,
    check_depth,
    json_path,
    policy_fault,
    read_document,
)

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_PARTS: Final = 4096
"""Most parts of a schema, one that is referred to counted as often as it is."""

MAX_STEPS: Final = 16 * 1024 * 1024
"""Most parts times characters of a content: it is checked within a fraction of a second."""

_PATTERN_BYTES: Final = 1024 * 1024
_MESSAGE_CHARS: Final = 240
_REMEMBERED: Final = 64

_DIALECTS: Final = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    }
)
"""Dialects that are taken; without a word of the author's, the first. Older ones call `id` what these call `$id`."""

_RENAMING: Final = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef")
"""Keywords that give parts other names, or choose a part when a document is checked."""

_LOOKING_BACK: Final = ("unevaluatedItems", "unevaluatedProperties")
_LOOKS: Final = 4
"""Keywords for which everything beside them is evaluated again, and how often at most."""

_LONGEST_WAY: Final = 4 * MAX_DEPTH
"""How far a part may be from the root, by way of references."""


def check_schema(schema: Json) -> bytes:
    """The schema, as it is kept. Raises InvalidPolicy with the JSON path of what is wrong, from `$.schema` on."""
    if not isinstance(schema, dict):
        raise policy_fault(("schema",), "must be an object", schema)
    check_depth(schema, ("schema",))
    encoded = msgspec.json.encode(schema)
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise policy_fault(("schema",), f"has at most {MAX_DOCUMENT_BYTES} bytes", len(encoded))
    parts = _Scale(schema).weigh(schema)
    if parts > MAX_PARTS:
        raise policy_fault(("schema",), f"has at most {MAX_PARTS} parts with its references written out", parts)
    _compiled(encoded)
    return encoded


def check_against(schema: bytes, text: str | None) -> None:
    """Return if a content is what the schema wants. Raises InvalidPolicy with the JSON path of the first fault."""
    from jsonschema_rs import ValidationError

    document = read_document(text)
    compiled = _compiled(schema)
    size = len(text or "")
    if size * compiled.parts > MAX_STEPS:
        raise policy_fault(
            (), f"has at most {MAX_STEPS // compiled.parts} characters under a schema as large as its", size
        )
    try:
        compiled.validator.validate(document)
    except ValidationError as error:
        raise _unfit(error) from error


class _Compiled(NamedTuple):
    validator: Validator
    parts: int


@lru_cache(maxsize=_REMEMBERED)
def _compiled(schema: bytes) -> _Compiled:
    # Here, because most servers never see a type of their users' own.
    from jsonschema_rs import ReferencingError, RegexOptions, ValidationError, validator_for

    try:
        validator = validator_for(
            schema.decode(),
            validate_formats=True,
            pattern_options=RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
            offline=True,
        )
    except ValidationError as error:
        raise policy_fault(("schema", *error.instance_path), f"not a schema: {_cut(error.message)}") from error
    except (ReferencingError, ValueError) as error:
        raise policy_fault(("schema",), f"not a schema: {_cut(str(error))}") from error
    document = msgspec.json.decode(schema)
    return _Compiled(validator, _Scale(document).weigh(document))


class _Scale:
    """Counts the parts of a schema.

    Whatever is in it counts, data of the author's in `const` or `enum` too: what is data at its place is a schema to
    who refers to it.
    """

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self._schema = schema
        self._weighed: dict[int, int] = {}

    def weigh(self, part: Json, at: JsonPath = (), inside: tuple[str, ...] = (), way: int = 0) -> int:
        """How many parts there are from here on. `inside` are the references that led here, `way` how far it is."""
        if not isinstance(part, dict | list):
            return 1
        known = self._weighed.get(id(part))
        if known is not None:
            return known
        if way > _LONGEST_WAY:
            raise policy_fault(("schema", *at), "is too far from the root by way of references")
        total = 1
        for step, inner in part.items() if isinstance(part, dict) else enumerate(part):
            here = (*at, step)
            if isinstance(inner, str):
                total += self._weigh_text(step, inner, here, inside, way + 1)
            else:
                total += self.weigh(inner, here, inside, way + 1)
        if any(keyword in part for keyword in _LOOKING_BACK):
            total *= _LOOKS
        self._weighed[id(part)] = total
        return total

    def _weigh_text(self, step: str | int, text: str, at: JsonPath, inside: tuple[str, ...], way: int) -> int:
        if step in _RENAMING:
            raise policy_fault(("schema", *at), "parts are referred to by where they are: #/$defs/NAME")
        if step == "$schema" and (len(at) > 1 or text.rstrip("#") not in _DIALECTS):
            raise policy_fault(("schema", *at), "names a dialect at the root, draft 6 or newer", text)
        if step != "$ref":
            return 1
        if text in inside or text == "#":
            raise policy_fault(("schema", *at), "a part cannot contain itself", text)
        part, steps = self._part(text, at)
        return self.weigh(part, steps, (*inside, text), way + 1)

    def _part(self, reference: str, at: JsonPath) -> tuple[Json, JsonPath]:
        """What a reference is to, and where that is."""
        if not reference.startswith("#/"):
            raise policy_fault(("schema", *at), "a schema refers to its own parts only: #/$defs/NAME", reference)
        part: Json = self._schema
        steps: JsonPath = ()
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict) and name in part:
                part, steps = part[name], (*steps, name)
            elif isinstance(part, list) and name.isascii() and name.isdigit() and int(name) < len(part):
                part, steps = part[int(name)], (*steps, int(name))
            else:
                raise policy_fault(("schema", *at), "there is no such part", reference)
        return part, steps


def _unfit(error: ValidationError) -> InvalidPolicy:
    from jsonschema_rs import ValidationErrorKind

    steps, kind = list(error.instance_path), error.kind
    # The library names the object that lacks a key, or has one too many; its author looks for the key.
    if isinstance(kind, ValidationErrorKind.Required):
        steps.append(kind.property)
    elif isinstance(kind, ValidationErrorKind.AdditionalProperties) and kind.unexpected:
        steps.append(kind.unexpected[0])
    path = json_path(steps)
    return InvalidPolicy(f"{path}: {_cut(error.message)}", argument=path)


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:_MESSAGE_CHARS]}…"

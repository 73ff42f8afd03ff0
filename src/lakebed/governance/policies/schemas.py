"""JSON schemas of user-defined policy types: which schemas are accepted, and validation of content.

Schemas come from users and are evaluated in the server, so they are limited. They may only reference their own parts,
without recursion. Their size with references expanded is bounded. Patterns match in linear time.
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
"""Maximum parts of a schema, counting referenced parts for every reference."""

MAX_STEPS: Final = 16 * 1024 * 1024
"""Maximum product of parts and characters of a content: bounds validation to a fraction of a second."""

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
"""Accepted dialects. The first is the default. Older ones have `id` in place of `$id`."""

_RENAMING: Final = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef")
"""Keywords that name parts, or resolve them during validation."""

_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_UNEVALUATED_COST: Final = 4
"""Keywords that evaluate their sibling keywords again, and how often at most."""

_MAX_DISTANCE: Final = 4 * MAX_DEPTH
"""Maximum distance of a part from the root, along references."""


def check_schema(schema: Json) -> bytes:
    """Validate a schema and encode it for storage. Raises InvalidPolicy with the JSON path from `$.schema` on."""
    if not isinstance(schema, dict):
        raise policy_fault(("schema",), "must be an object", schema)
    check_depth(schema, ("schema",))
    encoded = msgspec.json.encode(schema)
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise policy_fault(("schema",), f"has at most {MAX_DOCUMENT_BYTES} bytes", len(encoded))
    parts = _PartCounter(schema).count(schema)
    if parts > MAX_PARTS:
        raise policy_fault(("schema",), f"has at most {MAX_PARTS} parts with references expanded", parts)
    _compiled(encoded)
    return encoded


def check_against(schema: bytes, text: str | None) -> None:
    """Return if the content matches the schema. Raises InvalidPolicy with the JSON path of the first error."""
    from jsonschema_rs import ValidationError

    document = read_document(text)
    compiled = _compiled(schema)
    size = len(text or "")
    if size * compiled.parts > MAX_STEPS:
        raise policy_fault((), f"has at most {MAX_STEPS // compiled.parts} characters with a schema of this size", size)
    try:
        compiled.validator.validate(document)
    except ValidationError as error:
        raise _validation_fault(error) from error


class _Compiled(NamedTuple):
    validator: Validator
    parts: int


@lru_cache(maxsize=_REMEMBERED)
def _compiled(schema: bytes) -> _Compiled:
    # Imported here because most servers have no user-defined types.
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
    return _Compiled(validator, _PartCounter(document).count(document))


class _PartCounter:
    """Counts the parts of a schema.

    Data in `const` and `enum` counts too, because a reference can use it as a schema.
    """

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self._schema = schema
        self._counted: dict[int, int] = {}

    def count(self, part: Json, at: JsonPath = (), inside: tuple[str, ...] = (), distance: int = 0) -> int:
        """The number of parts below. `inside` are the references followed, `distance` is that from the root."""
        if not isinstance(part, dict | list):
            return 1
        counted = self._counted.get(id(part))
        if counted is not None:
            return counted
        if distance > _MAX_DISTANCE:
            raise policy_fault(("schema", *at), "is too far from the root along references")
        total = 1
        for step, inner in part.items() if isinstance(part, dict) else enumerate(part):
            here = (*at, step)
            if isinstance(inner, str):
                total += self._count_text(step, inner, here, inside, distance + 1)
            else:
                total += self.count(inner, here, inside, distance + 1)
        if any(keyword in part for keyword in _UNEVALUATED):
            total *= _UNEVALUATED_COST
        self._counted[id(part)] = total
        return total

    def _count_text(self, step: str | int, text: str, at: JsonPath, inside: tuple[str, ...], distance: int) -> int:
        if step in _RENAMING:
            raise policy_fault(("schema", *at), "parts must be referenced by position: #/$defs/NAME")
        if step == "$schema" and (len(at) > 1 or text.rstrip("#") not in _DIALECTS):
            raise policy_fault(("schema", *at), "must be a dialect from draft 6 on, at the root", text)
        if step != "$ref":
            return 1
        if text in inside or text == "#":
            raise policy_fault(("schema", *at), "a part cannot contain itself", text)
        part, steps = self._part(text, at)
        return self.count(part, steps, (*inside, text), distance + 1)

    def _part(self, reference: str, at: JsonPath) -> tuple[Json, JsonPath]:
        """The part that a reference resolves to, and its path."""
        if not reference.startswith("#/"):
            raise policy_fault(("schema", *at), "must reference a part of the schema itself: #/$defs/NAME", reference)
        part: Json = self._schema
        steps: JsonPath = ()
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict) and name in part:
                part, steps = part[name], (*steps, name)
            elif isinstance(part, list) and name.isascii() and name.isdigit() and int(name) < len(part):
                part, steps = part[int(name)], (*steps, int(name))
            else:
                raise policy_fault(("schema", *at), "no such part", reference)
        return part, steps


def _validation_fault(error: ValidationError) -> InvalidPolicy:
    from jsonschema_rs import ValidationErrorKind

    steps, kind = list(error.instance_path), error.kind
    # The library reports the object with a missing or additional key; report the key.
    if isinstance(kind, ValidationErrorKind.Required):
        steps.append(kind.property)
    elif isinstance(kind, ValidationErrorKind.AdditionalProperties) and kind.unexpected:
        steps.append(kind.unexpected[0])
    path = json_path(steps)
    return InvalidPolicy(f"{path}: {_cut(error.message)}", argument=path)


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:_MESSAGE_CHARS]}…"

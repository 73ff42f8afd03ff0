"""Parses JSON in policies within limits, and reports errors by JSON path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidPolicy
from lakebed.core.json.syntax_errors import describe_json_error

Json: TypeAlias = Any
"""A document of any structure, before validation."""

JsonPath: TypeAlias = tuple[str | int, ...]
"""A position in a document: object keys and list indexes."""

MAX_DOCUMENT_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 64
"""Maximum nesting of lists and objects."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARS: Final = 80


def json_path(steps: Iterable[str | int]) -> str:
    """The path in the notation of RFC 9535: `$.config['min-input-files']`."""
    path = "$"
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            path += f".{step}"
        else:
            quoted = step.replace("\\", "\\\\").replace("'", "\\'")
            path += f"['{quoted}']"
    return path


def policy_fault(steps: Iterable[str | int], rule: str, *found: Json) -> InvalidPolicy:
    """The error for a position in a document, with the value found there if given."""
    path = json_path(steps)
    shown = f". found={_shown(found[0])}" if found else ""
    return InvalidPolicy(f"{path}: {rule}{shown}", argument=path)


def read_document(text: str | None) -> Json:
    """Parse a document. Raises InvalidPolicy."""
    if text is None or not text.strip():
        raise policy_fault((), "the content must be a JSON document and is empty")
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise policy_fault((), f"the document has at most {MAX_DOCUMENT_BYTES} bytes", len(encoded))
    try:
        document = msgspec.json.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise policy_fault((), f"not a JSON document: {describe_json_error(encoded)}") from error
    except RecursionError as error:
        raise _too_deep() from error
    check_depth(document)
    return document


def read_content(text: str | None, allowed: Sequence[str], version: str) -> tuple[dict[str, Json], bool]:
    """Parse policy content with the keys `allowed`; the content and its `enable`. Raises InvalidPolicy.

    `version` is the only valid version. An empty or missing one means it too.
    """
    document = read_document(text)
    if not isinstance(document, dict):
        raise policy_fault((), "the content must be an object", document)
    for key in document:
        if key not in allowed:
            raise policy_fault((key,), f"unknown key, expected one of {', '.join(allowed)}")
    enable = document.get("enable")
    if not isinstance(enable, bool):
        raise policy_fault(("enable",), "is required and must be true or false", enable)
    if document.get("version") not in (None, "", version):
        raise policy_fault(("version",), f"must be {version}", document["version"])
    return document, enable


def check_depth(document: Json, at: JsonPath = ()) -> None:
    """Raise InvalidPolicy if a document is nested too deeply. `at` is its position in an outer document."""
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _too_deep(at)


def _too_deep(at: JsonPath = ()) -> InvalidPolicy:
    return policy_fault(at, f"the document is nested more than {MAX_DEPTH} levels deep")


def _shown(found: Json) -> str:
    text = json.dumps(found, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"

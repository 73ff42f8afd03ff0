"""JSON documents that people write into policies: read within bounds, and the path of what is wrong with one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidPolicy
from lakebed.core.json.syntax_errors import describe_json_error

Json: TypeAlias = Any
"""A document of any shape, until it was checked."""

JsonPath: TypeAlias = tuple[str | int, ...]
"""The way to a place in a document: names of keys, numbers in lists."""

MAX_DOCUMENT_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 64
"""How far lists and objects may be nested."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARS: Final = 80


def json_path(steps: Iterable[str | int]) -> str:
    """Where something is in a document, as RFC 9535 writes it: `$.config['min-input-files']`."""
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
    """The error for what is wrong at a place of a document; with what was found there, if that helps."""
    path = json_path(steps)
    shown = f". found={_shown(found[0])}" if found else ""
    return InvalidPolicy(f"{path}: {rule}{shown}", argument=path)


def read_document(text: str | None) -> Json:
    """The document in a text. Raises InvalidPolicy."""
    if text is None or not text.strip():
        raise policy_fault((), "the content is a JSON document; there is none")
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


def check_depth(document: Json, at: JsonPath = ()) -> None:
    """Raise InvalidPolicy when a document, which is somewhere in another, is nested further than anything should be."""
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

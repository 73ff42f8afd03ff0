"""The document that every refusal carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..xml import document, escape
from ._parts import optional

__all__ = ["write_error"]

_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def write_error(
    code: str,
    message: str,
    resource: str,
    request_id: str,
    details: Mapping[str, str] | None = None,
    *,
    host_id: str | None = None,
) -> bytes:
    """Error. `details` are further elements by name, such as `ArgumentName`."""
    further = "".join([f"<{name}>{_shown(value)}</{name}>" for name, value in (details or {}).items()])
    return document(
        "Error",
        f"<Code>{escape(code)}</Code><Message>{_shown(message)}</Message>{further}"
        f"<Resource>{_shown(resource)}</Resource><RequestId>{escape(request_id)}</RequestId>"
        f"{optional('HostId', host_id)}",
        namespace=False,
    )


def _shown(text: str) -> str:
    """What a client sent, so that the document stays one that its parser can read."""
    return escape(_NOT_XML.sub("\ufffd", text))

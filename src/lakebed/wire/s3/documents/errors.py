"""The document that every refusal carries."""

from __future__ import annotations

from collections.abc import Mapping

from ..xml import document, escape

__all__ = ["write_error"]


def write_error(
    code: str, message: str, resource: str, request_id: str, details: Mapping[str, str] | None = None
) -> bytes:
    """Error. `details` are further elements by name, such as `ArgumentName`."""
    further = "".join([f"<{name}>{escape(value)}</{name}>" for name, value in (details or {}).items()])
    return document(
        "Error",
        f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>{further}"
        f"<Resource>{escape(resource)}</Resource><RequestId>{escape(request_id)}</RequestId>",
        namespace=False,
    )

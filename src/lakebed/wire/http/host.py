"""The `Host` header and the authority of a request target: what RFC 9112 §3.2 and RFC 9110 §7.2 accept."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]{0,5})?")
"""RFC 3986 §3.2.2: a name or an IPv4 address, which may be empty, and a port."""

_IP_LITERAL: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{0,5})?")
_MAX_CHARS: Final = 1024
_MAX_PORT: Final = 65535


@lru_cache(maxsize=256)
def is_valid_host(text: str) -> bool:
    """Whether a text is `uri-host [ ":" port ]`, without user information."""
    if len(text) > _MAX_CHARS or not text.isascii():
        return False
    literal = _IP_LITERAL.fullmatch(text)
    if literal is not None:
        try:
            IPv6Address(literal[1])
        except ValueError:
            return False
    elif _REG_NAME.fullmatch(text) is None:
        return False
    port = text.rpartition(":")[2] if ":" in text and not text.endswith("]") else ""
    return not port or int(port) <= _MAX_PORT


def split_absolute(target: str) -> tuple[str, str] | None:
    """The authority and the path of an absolute-form target (`http://host/path`), as proxies send it; None for others.

    The target comes without its query.
    """
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority, slash, path = rest.partition("/")
    return authority, slash + path or "/"

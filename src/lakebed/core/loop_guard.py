"""Detects event deliveries that return to the server that sent them. Pure.

An HTTP target may be this server itself, by mistake or behind a proxy. An event about such a request would cause
another request, without end. So each delivery carries a MAC that only servers with the same master key can compute.
"""

from __future__ import annotations

import hmac
from typing import Final

HEADER: Final = "Lakebed-Delivery"


class LoopGuard:
    """Signs delivery ids and recognizes its own signatures."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def proof_for(self, message_id: str) -> str:
        """The value of the header for a delivery."""
        return f"{message_id}.{self._mac(message_id)}"

    def recognizes(self, text: str) -> bool:
        """Whether a header value is of a delivery of this deployment."""
        message_id, dot, mac = text.rpartition(".")
        return bool(dot) and hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(message_id).encode())

    def _mac(self, message_id: str) -> str:
        return hmac.digest(self._key, message_id.encode("utf-8", "replace"), "sha256").hex()

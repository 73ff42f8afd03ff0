"""How a server knows a message that it sent itself, should that come back to it. Pure.

A target over HTTP may be this very server, by mistake or behind a proxy. Messages about requests would then make
requests of their own, without end. So each of them carries a proof that only servers with the same master key can
make: nobody else can pass for one.
"""

from __future__ import annotations

import hmac
from typing import Final

HEADER: Final = "Lakebed-Delivery"


class LoopGuard:
    """Makes and knows proofs."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def proof_for(self, message_id: str) -> str:
        """What is sent beside the message with that id."""
        return f"{message_id}.{self._mac(message_id)}"

    def recognizes(self, text: str) -> bool:
        """Whether it came beside a message of ours."""
        message_id, dot, mac = text.rpartition(".")
        return bool(dot) and hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(message_id).encode())

    def _mac(self, message_id: str) -> str:
        return hmac.digest(self._key, message_id.encode("utf-8", "replace"), "sha256").hex()

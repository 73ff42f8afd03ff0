"""Who there is to be told: those whom the settings name, and those who were added by the API."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from lakebed.core.errors import Corrupted, InvalidInput
from lakebed.core.secrets import Secret
from lakebed.governance.vault import Vault
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from ..selection import parse_selection
from . import rows
from .model import Origin, Subscriber, cursor_of

log = logging.getLogger("lakebed.events")

PURPOSE = "webhook secrets"
"""What the vault seals for."""


class Subscribers:
    """The subscribers of a server."""

    def __init__(self, meta: MetaStore, vault: Vault, stated: Mapping[str, Subscriber]) -> None:
        self._meta = meta
        self._vault = vault
        self.stated = dict(stated)
        """Those of the settings."""

    async def all(self) -> list[Subscriber]:
        """Everybody. One that cannot be read is told of in the log, and holds nobody else up."""
        found = dict(self.stated)
        for row in await self._meta.rows(rows.SUBSCRIBERS):
            try:
                found.setdefault(row[0], self._read(row))
            except (Corrupted, InvalidInput):
                log.exception("a webhook cannot be read; it is left out", extra={"webhook": row[0]})
        return [found[name] for name in sorted(found)]

    async def find(self, reader: Reader, name: str) -> Subscriber | None:
        """The one of that name, if there is one. Raises Corrupted."""
        if name in self.stated:
            return self.stated[name]
        row = await reader.row(rows.SUBSCRIBER, name)
        return None if row is None else self._read(row)

    def sealed(self, subscriber: Subscriber) -> bytes:
        """Its secret, as it is stored."""
        return self._vault.seal(subscriber.secret.reveal().encode(), _context(subscriber.name))

    def _read(self, row: Row) -> Subscriber:
        name, url, sealed, kinds = row
        secret = Secret(self._vault.open(sealed, _context(name)).decode())
        return Subscriber(name, url, secret, tuple(kinds.split(",")), parse_selection(kinds), Origin.API)


async def release_place(outbox: Outbox, tx: Transaction, name: str) -> None:
    """Forget where a subscriber stood, and what waited for it: the outbox waits for it no longer."""
    await tx.run(rows.FORGET_ALL, name)
    await outbox.drop_cursor(tx, cursor_of(name))


def _context(name: str) -> bytes:
    return b"webhook " + name.encode()

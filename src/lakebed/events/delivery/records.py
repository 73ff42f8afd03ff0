"""Which targets there are: those that the settings name, and those that were added by the API."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.errors import Corrupted, InvalidInput, LakebedError
from lakebed.governance.credentials.vault import Vault
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from ..targets.registry import TargetTypes
from ..targets.seam import TargetSettings
from . import rows
from .model import TargetOrigin, TargetRecord, cursor_of, parse_subscription
from .model import target_id as id_of

log = logging.getLogger("lakebed.events")

PURPOSE: Final = "webhook secrets"
"""What the vault seals for: what was stored when there were webhooks alone must open still."""

_SIGNING_SECRET: Final = "secret"  # noqa: S105 - the name of a field


class StoredSettings(NamedTuple):
    """Settings of a target as they are stored."""

    shown: str
    sealed: bytes


class TargetRecords:
    """The targets of a server."""

    def __init__(
        self, meta: MetaStore, vault: Vault, kinds: TargetTypes, configured: Mapping[str, TargetRecord]
    ) -> None:
        """`configured` are those of the settings, by their ids."""
        self._meta = meta
        self._vault = vault
        self._kinds = kinds
        self.configured = dict(configured)
        self._unreadable: set[str] = set()

    @property
    def request_subscribers(self) -> Sequence[str]:
        """Those of the settings that are sent requests."""
        return [name for name, record in self.configured.items() if record.subscription.requests]

    async def all(self) -> list[TargetRecord]:
        """Every target, by name. One that cannot be read is told of in the log, and holds no other up."""
        found = dict(self.configured)
        for row in await self._meta.rows(rows.TARGETS):
            name = id_of(row[0], row[1])
            try:
                found.setdefault(name, self._read(row))
            except LakebedError:
                if name not in self._unreadable:
                    log.exception("a target cannot be read; it is left out", extra={"target": name})
                self._unreadable.add(name)
        return [found[name] for name in sorted(found)]

    async def find(self, reader: Reader, name: str, type_: str) -> TargetRecord | None:
        """The one of that name and type, if there is one. Raises Corrupted, InvalidInput."""
        configured = self.configured.get(id_of(name, type_))
        if configured is not None:
            return configured
        row = await reader.row(rows.TARGET, name, type_)
        return None if row is None else self._read(row)

    async def knows(self, tx: Reader, target_id: str) -> bool:
        """Whether there is a target `<id>:<type>`, as things are inside the transaction."""
        name, _, type_ = target_id.partition(":")
        return target_id in self.configured or await tx.row(rows.TARGET, name, type_) is not None

    def stored(self, record: TargetRecord) -> StoredSettings:
        """Its settings as they are stored."""
        document = settings_document(record.settings)
        secrets = {key: document.pop(key) for key in record.settings.secrets if key in document}
        return StoredSettings(
            msgspec.json.encode(document).decode(),
            self._vault.seal(msgspec.json.encode(secrets), _context(record.name, record.type)),
        )

    def _read(self, row: Row) -> TargetRecord:
        name, type_, shown, sealed, form, kinds, subject, audit, is_paused, requests = row
        opened = self._vault.open(sealed, _context(name, type_))
        # A webhook that was stored before there were targets of other kinds has its secret here, and nothing else.
        secrets = msgspec.json.decode(opened) if opened.startswith(b"{") else {_SIGNING_SECRET: opened.decode()}
        try:
            settings = self._kinds.read(type_, msgspec.json.decode(shown) | secrets)
        except InvalidInput as error:
            raise Corrupted(f"a stored target cannot be read: {error}. target={id_of(name, type_)}") from error
        asked = parse_subscription(
            kinds.split(",") if kinds else (), subject, audit=bool(audit), requests=bool(requests)
        )
        return TargetRecord(name, type_, settings, asked, form, bool(is_paused), TargetOrigin.API)


def settings_document(settings: TargetSettings) -> dict[str, Any]:
    """Settings as a document: what they were made of, but for what has its default. Any: JSON."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    defaults = {field.encode_name: field.default for field in msgspec.structs.fields(settings)}
    return {name: value for name, value in document.items() if value != defaults.get(name)}


async def drop_deliveries(outbox: Outbox, tx: Transaction, target: str) -> None:
    """Forget where a target stood, and what waited for it: the outbox waits for it no longer."""
    await tx.run(rows.FORGET_ALL, target)
    await outbox.drop_cursor(tx, cursor_of(target))


def _context(name: str, type_: str) -> bytes:
    return f"{type_} {name}".encode()

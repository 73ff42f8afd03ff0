"""The configured targets: those in the settings, and those added by the API."""

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
"""The vault's key purpose. Named when all targets were webhooks; a change would make stored secrets unreadable."""

_SIGNING_SECRET: Final = "secret"  # noqa: S105 - the name of a field


class StoredSettings(NamedTuple):
    """Target settings in their stored format."""

    document: str
    sealed: bytes


class TargetRecords:
    """The targets of a server."""

    def __init__(
        self, meta: MetaStore, vault: Vault, types: TargetTypes, configured: Mapping[str, TargetRecord]
    ) -> None:
        """`configured` has the targets of the settings by id."""
        self._meta = meta
        self._vault = vault
        self._types = types
        self.configured = dict(configured)
        self._unreadable: set[str] = set()

    @property
    def request_subscribers(self) -> Sequence[str]:
        """The targets in the settings that subscribe to requests."""
        return [name for name, record in self.configured.items() if record.subscription.requests]

    async def all(self) -> list[TargetRecord]:
        """All targets, sorted by id. Skips and logs targets that cannot be decoded."""
        found = dict(self.configured)
        for row in await self._meta.rows(rows.TARGETS):
            name = id_of(row[0], row[1])
            try:
                found.setdefault(name, self._read(row))
            except LakebedError:
                if name not in self._unreadable:
                    log.exception("target cannot be decoded, skipping it", extra={"target": name})
                self._unreadable.add(name)
        return [found[name] for name in sorted(found)]

    async def find(self, reader: Reader, name: str, type_: str) -> TargetRecord | None:
        """The target, or None. Raises Corrupted, InvalidInput."""
        configured = self.configured.get(id_of(name, type_))
        if configured is not None:
            return configured
        row = await reader.row(rows.TARGET, name, type_)
        return None if row is None else self._read(row)

    async def exists(self, tx: Reader, target_id: str) -> bool:
        """Implements `TargetLookup`."""
        name, _, type_ = target_id.partition(":")
        return target_id in self.configured or await tx.row(rows.TARGET, name, type_) is not None

    def stored(self, record: TargetRecord) -> StoredSettings:
        """Encode the settings for storage, with sealed secrets."""
        document = settings_document(record.settings)
        secrets = {key: document.pop(key) for key in record.settings.secrets if key in document}
        return StoredSettings(
            msgspec.json.encode(document).decode(),
            self._vault.seal(msgspec.json.encode(secrets), _context(record.name, record.type)),
        )

    def _read(self, row: Row) -> TargetRecord:
        name, type_, document, sealed, form, kinds, subject, audit, is_paused, requests = row
        opened = self._vault.open(sealed, _context(name, type_))
        # Webhooks of early versions have only their secret here, without JSON.
        secrets = msgspec.json.decode(opened) if opened.startswith(b"{") else {_SIGNING_SECRET: opened.decode()}
        try:
            settings = self._types.read(type_, msgspec.json.decode(document) | secrets)
        except InvalidInput as error:
            raise Corrupted(f"stored target is invalid: {error}. target={id_of(name, type_)}") from error
        subscription = parse_subscription(
            kinds.split(",") if kinds else (), subject, audit=bool(audit), requests=bool(requests)
        )
        return TargetRecord(name, type_, settings, subscription, form, bool(is_paused), TargetOrigin.API)


def settings_document(settings: TargetSettings) -> dict[str, Any]:
    """Settings as a document, without default values. Any: JSON."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    defaults = {field.encode_name: field.default for field in msgspec.structs.fields(settings)}
    return {name: value for name, value in document.items() if value != defaults.get(name)}


async def drop_deliveries(outbox: Outbox, tx: Transaction, target: str) -> None:
    """Delete a target's outbox cursor, waiting events and dead letters."""
    await tx.run(rows.DELETE_DELIVERIES, target)
    await outbox.drop_cursor(tx, cursor_of(target))


def _context(name: str, type_: str) -> bytes:
    return f"{type_} {name}".encode()

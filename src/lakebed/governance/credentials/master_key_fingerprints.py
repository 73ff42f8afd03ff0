"""Fingerprints of master keys: a server starts only if it has every master key that encrypted stored data.

Two servers on one metadata store with different keys could not decrypt each other's secrets, session tokens and
objects. So a key is recorded when it is first active, in the transaction that compares the recorded keys. Of servers
that start together on an empty store, each with its own key, the first starts and the others are refused.

A key that was never active has encrypted nothing and is not recorded. ADR 8 has the reasons.
"""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import InvalidSetting
from lakebed.meta.seam import MetaStore, Transaction

from .vault import MasterKeys

_RECORDED: Final = "SELECT id, fingerprint FROM master_keys ORDER BY id"
_RECORD: Final = "INSERT INTO master_keys (id, fingerprint) VALUES (?, ?)"

_REMEDY: Final = (
    "set encryption.keys to the same keys on every server of this metadata store; a key that a server generated is in"
    " secrets.json of its data folder, as master_key_id and master_key"
)


async def verify_master_keys(store: MetaStore, keys: MasterKeys) -> None:
    """Compare the configured keys with the recorded ones, and record the active one.

    Raises InvalidSetting and records nothing if a recorded key is missing or different.
    """

    async def work(tx: Transaction) -> None:
        recorded: dict[str, bytes] = dict(await tx.rows(_RECORDED))
        missing = [key_id for key_id in recorded if key_id not in keys]
        if missing:
            raise InvalidSetting(
                f"encryption.keys: stored data needs master keys that are not configured: {_REMEDY}."
                f" missing={','.join(missing)}",
                argument="encryption.keys",
            )
        for key_id, fingerprint in recorded.items():
            if keys.fingerprint(key_id) != fingerprint:
                raise InvalidSetting(
                    f"encryption.keys.{key_id}: stored data was encrypted with another key of this id: {_REMEDY}."
                    f" key={key_id}",
                    argument=f"encryption.keys.{key_id}",
                )
        if keys.active not in recorded:
            await tx.run(_RECORD, keys.active, keys.fingerprint(keys.active))

    await store.transact(work)

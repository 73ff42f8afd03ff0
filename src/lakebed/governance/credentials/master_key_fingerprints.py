"""The master keys that stored data was sealed with, known by their fingerprints: no server starts without all of them.

Two servers on one metadata store that hold different keys would each seal what the other cannot open: secrets of access
keys, session tokens, objects. So a key is recorded when it is first active, in the transaction that compares those
recorded before. Of servers that start together on an empty store with keys of their own, one is first and the others
are refused.

A key that was never active has sealed nothing: it may come, change and go unrecorded. ADR 8 has the reasons.
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
    """Compare the keys held with those recorded, and record the active one.

    Raises InvalidSetting, with nothing recorded, when one is missing or is another key of the same id.
    """

    async def work(tx: Transaction) -> None:
        recorded: dict[str, bytes] = dict(await tx.rows(_RECORDED))
        missing = [key_id for key_id in recorded if key_id not in keys]
        if missing:
            raise InvalidSetting(
                f"encryption.keys: stored data needs master keys that are not here: {_REMEDY}."
                f" missing={','.join(missing)}",
                argument="encryption.keys",
            )
        for key_id, fingerprint in recorded.items():
            if keys.fingerprint(key_id) != fingerprint:
                raise InvalidSetting(
                    f"encryption.keys.{key_id}: not the key of that id that stored data was sealed with: {_REMEDY}."
                    f" key={key_id}",
                    argument=f"encryption.keys.{key_id}",
                )
        if keys.active not in recorded:
            await tx.run(_RECORD, keys.active, keys.fingerprint(keys.active))

    await store.transact(work)

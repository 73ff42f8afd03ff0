"""What happened to a user, its access keys and its policies, as the outbox keeps it: written with the change itself.

Every row that came, went or changed has an event of its own, those of a user's keys and policies too when they come or
go with the user: whoever follows the events knows what the tables hold. What changed nothing tells nothing.

    User            Created, Configured, Enabled, Disabled, Deleted
    AccessKey       Created, Rotated, Enabled, Disabled, Deleted
    Policy          Attached (also in place of one of the same name), Detached
    ClientCredentials   Created, Rotated, Reset; they go with their user
    ExternalIdentity    Linked: who comes with a token of a provider was found to be, or became, a user
    TokenKey        Created, Retired, Revoked: the keys that the server signs tokens with
"""

from __future__ import annotations

import msgspec

from lakebed.core.access import Principal
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .model import User


class IdentityEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload. It names things and shows nothing of what is in them: no secret, no policy document."""

    user: str = ""
    user_id: str = ""
    """Told of the user itself, as is the ARN."""

    arn: str = ""
    access_key: str = ""
    client: str = ""
    """The id of client credentials."""

    issuer: str = ""
    """The provider of an external identity."""

    token_key: str = ""
    policy: str = ""
    is_canned: bool = False
    principal: str = ""
    """Who made the change: root, or who manages users by the management API."""

    account: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(IdentityEvent).decode


async def append_user_event(
    outbox: Outbox, tx: Transaction, name: str, user: User, caller: Principal, now_ms: int
) -> None:
    """Record what became of a user."""
    event = IdentityEvent(
        user=user.name, user_id=user.user_id, arn=user.arn, principal=caller.name, account=caller.account
    )
    await outbox.append(tx, OutboxEvent(name, user.name, _encode(event), now_ms))


async def append_access_key_event(
    outbox: Outbox, tx: Transaction, name: str, user: str, access_key_id: str, caller: Principal, now_ms: int
) -> None:
    """Record what became of a user's access key."""
    event = IdentityEvent(user=user, access_key=access_key_id, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, f"{user}/{access_key_id}", _encode(event), now_ms))


async def append_user_policy_event(
    outbox: Outbox,
    tx: Transaction,
    name: str,
    user: str,
    policy: str,
    caller: Principal,
    now_ms: int,
    *,
    is_canned: bool,
) -> None:
    """Record what became of a user's policy."""
    event = IdentityEvent(user=user, policy=policy, is_canned=is_canned, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, f"{user}/{policy}", _encode(event), now_ms))


async def append_client_event(
    outbox: Outbox, tx: Transaction, name: str, user: str, client_id: str, caller: Principal, now_ms: int
) -> None:
    """Record what became of a user's client credentials."""
    event = IdentityEvent(user=user, client=client_id, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, f"{user}/{client_id}", _encode(event), now_ms))


async def append_identity_event(outbox: Outbox, tx: Transaction, user: User, issuer: str, now_ms: int) -> None:
    """Record that a user came with a token of a provider for the first time."""
    event = IdentityEvent(
        user=user.name, user_id=user.user_id, issuer=issuer, principal=user.name, account=user.account
    )
    await outbox.append(tx, OutboxEvent("ExternalIdentityLinked", user.name, _encode(event), now_ms))


async def append_token_key_event(
    outbox: Outbox, tx: Transaction, name: str, key_id: str, caller: Principal, now_ms: int
) -> None:
    """Record what became of a key that tokens are signed with."""
    event = IdentityEvent(token_key=key_id, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, key_id, _encode(event), now_ms))

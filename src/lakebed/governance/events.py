"""Identity events: changes of users, access keys, user policies, credentials and signing keys.

An event commits with its change. Every created, changed or deleted row has one, including a user's keys and policies
that are created or deleted with the user. A call that changes nothing emits nothing.

    User            Created, Configured, Enabled, Disabled, Deleted
    AccessKey       Created, Rotated, Enabled, Disabled, Deleted
    Policy          Attached (or replaced), Detached
    ClientCredentials   Created, Rotated, Reset; deleted with their user, without an event
    ExternalIdentity    Linked: an identity of a provider was linked to a user
    TokenKey        Created, Retired, Revoked: the server's token signing keys
"""

from __future__ import annotations

import msgspec

from lakebed.core.access import Principal
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .model import User


class IdentityEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload: names only, no secrets and no policy documents."""

    user: str = ""
    user_id: str = ""
    """Only on events of the user itself, as is the ARN."""

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
    """The caller: root, or a principal of the management API."""

    account: str = ""


_encode = msgspec.msgpack.Encoder().encode


async def append_user_event(
    outbox: Outbox, tx: Transaction, name: str, user: User, caller: Principal, now_ms: int
) -> None:
    """Append a user event."""
    event = IdentityEvent(
        user=user.name, user_id=user.user_id, arn=user.arn, principal=caller.name, account=caller.account
    )
    await outbox.append(tx, OutboxEvent(name, user.name, _encode(event), now_ms))


async def append_access_key_event(
    outbox: Outbox, tx: Transaction, name: str, user: str, access_key_id: str, caller: Principal, now_ms: int
) -> None:
    """Append an access key event."""
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
    """Append a user policy event."""
    event = IdentityEvent(user=user, policy=policy, is_canned=is_canned, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, f"{user}/{policy}", _encode(event), now_ms))


async def append_client_event(
    outbox: Outbox, tx: Transaction, name: str, user: str, client_id: str, caller: Principal, now_ms: int
) -> None:
    """Append an event of client credentials."""
    event = IdentityEvent(user=user, client=client_id, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, f"{user}/{client_id}", _encode(event), now_ms))


async def append_identity_event(outbox: Outbox, tx: Transaction, user: User, issuer: str, now_ms: int) -> None:
    """Record the first login of a user with a token of a provider."""
    event = IdentityEvent(
        user=user.name, user_id=user.user_id, issuer=issuer, principal=user.name, account=user.account
    )
    await outbox.append(tx, OutboxEvent("ExternalIdentityLinked", user.name, _encode(event), now_ms))


async def append_token_key_event(
    outbox: Outbox, tx: Transaction, name: str, key_id: str, caller: Principal, now_ms: int
) -> None:
    """Append a signing key event."""
    event = IdentityEvent(token_key=key_id, principal=caller.name, account=caller.account)
    await outbox.append(tx, OutboxEvent(name, key_id, _encode(event), now_ms))

"""Principals of the management API: users with properties, a version and client credentials, and root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lakebed.core.access import Credential
from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchPrincipal
from lakebed.core.ids import new_access_key_id
from lakebed.core.secrets import Secret
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction

from ..events import append_user_event
from ..model import User, check_user_name
from ..principals import find_user, insert_user, remove_user
from ..tokens.client_credentials import ClientCredentialStore
from ..tokens.model import NewClientCredentials
from . import rows
from .administrator import Administrator
from .model import ROOT, ManagedPrincipal, Properties, check_properties, check_version, pack_properties
from .principal_roles import find_principal_role


class PrincipalWithSecret(NamedTuple):
    """A principal with new client credentials, whose secret is returned only once."""

    principal: ManagedPrincipal
    credentials: NewClientCredentials


class ManagedPrincipals:
    """The operations on principals, each authorized."""

    def __init__(
        self, store: MetaStore, outbox: Outbox, clock: Clock, root: Credential, issuer: ClientCredentialStore
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._root = root
        self._issuer = issuer

    async def create(
        self, by: Administrator, name: str, *, properties: Properties, rotation_required: bool = False
    ) -> PrincipalWithSecret:
        """Create a user in root's account, with client credentials. Raises InvalidName, InvalidInput, AlreadyExists.

        With `rotation_required`, the credentials can only be used to rotate them, so that only the user knows the
        secret in use.
        """
        await by.authorize("createPrincipal")
        check_user_name(name)
        checked = check_properties(properties)
        fresh = await self._issuer.prepare()
        now_ms = self._clock.now_ms()
        user = User(name, new_access_key_id("LKBU"), self._root.principal.account, enabled=True, created_ms=now_ms)

        async def work(tx: Transaction) -> PrincipalWithSecret:
            await insert_user(tx, user)
            if checked:
                await tx.run(rows.SET_PROPERTIES, pack_properties(checked), name)
            await append_user_event(self._outbox, tx, "UserCreated", user, by.principal, now_ms)
            credentials = await self._issuer.create(
                tx, user, fresh, caller=by.principal, rotation_required=rotation_required
            )
            return PrincipalWithSecret(await find_principal(tx, name), credentials)

        return await self._store.transact(work)

    async def list(self, by: Administrator) -> list[ManagedPrincipal]:
        """All users and root, ordered by name."""
        await by.authorize("listPrincipals")
        found = [rows.principal_from(row) for row in await self._store.rows(rows.PRINCIPALS)]
        return sorted([*found, self._root_principal], key=_name)

    async def get(self, by: Administrator, name: str) -> ManagedPrincipal:
        """A user, or root. Raises NoSuchPrincipal."""
        await by.authorize("getPrincipal")
        return self._root_principal if name == ROOT else await find_principal(self._store, name)

    async def update(self, by: Administrator, name: str, *, properties: Properties, version: int) -> ManagedPrincipal:
        """Replace the properties if the version matches. Raises NoSuchPrincipal, PreconditionFailed."""
        await by.authorize("updatePrincipal")
        _refuse_root(name)
        checked = check_properties(properties)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> ManagedPrincipal:
            user, found = await find_user(tx, name), await find_principal(tx, name)
            check_version(found.version, version)
            await tx.run(rows.UPDATE_PRINCIPAL, pack_properties(checked), now_ms, name)
            await append_user_event(self._outbox, tx, "UserConfigured", user, by.principal, now_ms)
            return replace(found, properties=checked, version=found.version + 1, updated_ms=now_ms)

        return await self._store.transact(work)

    async def delete(self, by: Administrator, name: str) -> None:
        """Delete a user with its keys, credentials, policies and roles. Raises NoSuchPrincipal."""
        await by.authorize("deletePrincipal")
        _refuse_root(name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await remove_user(tx, self._outbox, name, by.principal, now_ms)

        await self._store.transact(work)

    async def rotate(self, by: Administrator, name: str) -> PrincipalWithSecret:
        """Create a new secret; the current one is valid until the next rotation. Users may rotate their own.

        Raises NoSuchPrincipal; InvalidInput for root and for users without client credentials.
        """
        if name != by.principal.name or name == ROOT:
            await by.authorize("rotateCredentials")
        _refuse_root(name)
        user = await find_user(self._store, name)
        if name == by.principal.name and user.user_id != by.principal.user_id:
            # A new user with the same name, created after the caller was authenticated.
            raise AccessDenied("the caller was deleted")
        credentials = await self._issuer.rotate(user, caller=by.principal)
        return PrincipalWithSecret(await find_principal(self._store, name), credentials)

    async def reset(
        self, by: Administrator, name: str, *, client_id: str | None = None, secret: Secret | None = None
    ) -> PrincipalWithSecret:
        """Replace a user's client credentials, generated or given; the old ones are invalid at once. Only for root.

        Raises AccessDenied, NoSuchPrincipal; AlreadyExists if the client id is taken.
        """
        await by.authorize("resetCredentials")
        if not by.principal.is_root:
            # Setting a user's secret permits impersonation, including of users with more privileges.
            raise AccessDenied("only root can reset credentials; users can rotate their own")
        _refuse_root(name)
        user = await find_user(self._store, name)
        credentials = await self._issuer.reset(user, client_id=client_id, secret=secret, caller=by.principal)
        return PrincipalWithSecret(await find_principal(self._store, name), credentials)

    async def assignees(self, by: Administrator, role_name: str) -> Sequence[ManagedPrincipal]:
        """The principals with a principal role, ordered by name, root included. Raises NoSuchPrincipal."""
        await by.authorize("listAssigneePrincipalsForPrincipalRole")
        role = await find_principal_role(self._store, role_name)
        names = {row[0] for row in await self._store.rows(rows.MEMBERS_OF_ROLE, role.id)}
        found = [rows.principal_from(row) for row in await self._store.rows(rows.PRINCIPALS_OF_ROLE, role.id)]
        return sorted([*found, self._root_principal] if ROOT in names else found, key=_name)

    @property
    def _root_principal(self) -> ManagedPrincipal:
        """Root, as configured in the settings. It never changes."""
        return ManagedPrincipal(ROOT, self._root.access_key_id, {}, 1, None, None)


async def find_principal(reader: Reader, name: str) -> ManagedPrincipal:
    """The principal of that name. Raises NoSuchPrincipal."""
    row = await reader.row(rows.PRINCIPAL, name)
    if row is None:
        raise NoSuchPrincipal(f"no such principal. name={name}")
    return rows.principal_from(row)


def _refuse_root(name: str) -> None:
    if name == ROOT:
        raise InvalidInput("root is configured in the settings: change it there", argument="principal", value=ROOT)


def _name(principal: ManagedPrincipal) -> str:
    return principal.name

from __future__ import annotations

import pytest

from lakebed.core.access import Credential, CredentialResolver
from lakebed.core.errors import Unauthenticated
from lakebed.governance import AccessKeys, CredentialLookup, Principals, Sessions


async def test_each_kind_of_key_finds_its_principal(
    credentials: CredentialLookup, principals: Principals, access_keys: AccessKeys, sessions: Sessions, root: Credential
) -> None:
    source: CredentialResolver = credentials
    await principals.create_user("bob")
    long_lived = await access_keys.create("bob")
    assert await source.credential("ROOTKEY") is root
    found = await source.credential(long_lived.key.id)
    assert found.principal.name == "bob"
    temporary = sessions.issue(found.principal)
    in_session = await source.credential(temporary.access_key_id, temporary.session_token.reveal())
    assert in_session.principal.session == temporary.session
    assert in_session.secret == temporary.secret


async def test_temporary_key_requires_its_session_token(
    credentials: CredentialLookup, sessions: Sessions, root: Credential
) -> None:
    key = sessions.issue(root.principal)
    with pytest.raises(Unauthenticated, match="needs its session token"):
        await credentials.credential(key.access_key_id)
    with pytest.raises(Unauthenticated, match="not valid"):
        await credentials.credential(key.access_key_id, "")


async def test_long_lived_key_with_a_session_token_is_refused(
    credentials: CredentialLookup, sessions: Sessions, root: Credential
) -> None:
    key = sessions.issue(root.principal)
    with pytest.raises(Unauthenticated, match="only a temporary key"):
        await credentials.credential("ROOTKEY", key.session_token.reveal())

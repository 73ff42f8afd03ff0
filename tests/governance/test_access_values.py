from __future__ import annotations

from lakebed import governance
from lakebed.core.access import ANONYMOUS, Credential, canonical_id, root_of
from lakebed.core.secrets import Secret

from .documents import OTHER, OWNER, session, user


def test_canonical_id_depends_on_the_account_and_is_stable() -> None:
    # Clients store it in grants and compare it with owners.
    assert canonical_id(OWNER) == "c5381d562cbf4f00cb7c52ebc6b7e5b06a18a5ba4ffc54ca04236d7c6d678bae"
    assert canonical_id(OTHER) != canonical_id(OWNER)


def test_caller_arn_is_that_of_a_named_session() -> None:
    assert user().caller_arn == user().arn
    assert user(session=session()).caller_arn == user().arn
    assert user(session=session(arn="arn:aws:sts::1:assumed-role/r/s")).caller_arn == "arn:aws:sts::1:assumed-role/r/s"


def test_root_and_anonymous_principals_identify_themselves() -> None:
    assert root_of(OWNER).is_root
    assert root_of(OWNER).arn == f"arn:aws:iam::{OWNER}:root"
    assert ANONYMOUS.is_anonymous
    assert not ANONYMOUS.is_root


def test_repr_of_a_credential_hides_its_secret() -> None:
    assert "hidden-text" not in repr(Credential("id", Secret("hidden-text"), root_of(OWNER)))


def test_package_exports_exactly_all() -> None:
    public = {name for name, value in vars(governance).items() if not name.startswith("_") and not _is_module(value)}
    assert public == set(governance.__all__)


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"

"""PyIceberg with an OAuth2 credential only, for the catalog and files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError

from tests.clients.boto import Keys, root_keys
from tests.clients.iceberg.lake import ALIAS, OWN, POLARIS, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.plain_http import fetch
from tests.clients.users import User, administer, user_with_actions

pytestmark = pytest.mark.integration

FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


@contextmanager
def pyiceberg(
    lake: Lake, keys: Keys, *, mount: str = OWN, properties: Mapping[str, Any] | None = None
) -> Iterator[RestCatalog]:
    """PyIceberg with an OAuth2 credential."""
    settings: dict[str, Any] = {  # Any: strings and nested settings
        "uri": f"{lake.server.endpoint}{mount}",
        "warehouse": lake.warehouse,
        "credential": f"{keys.access_key}:{keys.secret_key}",
        "oauth2-server-uri": f"{lake.server.endpoint}{mount}/v1/oauth/tokens",
        **(properties or {}),
    }
    with closing(RestCatalog("lake", **settings)) as catalog:
        yield catalog


def use(catalog: RestCatalog, namespace: str) -> None:
    """Create, write, change and read a table."""
    table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(1, 2, 3))
    table.delete("id = 2")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3]


@pytest.mark.parametrize("mount", [OWN, ALIAS, POLARIS])
def test_root_needs_an_oauth_credential_only(lake: Lake, namespace: str, mount: str) -> None:
    with pyiceberg(lake, root_keys(lake.server), mount=mount) as catalog:
        use(catalog, namespace)


def test_token_endpoint_is_also_at_the_root_path(lake: Lake, namespace: str) -> None:
    server = {"oauth2-server-uri": f"{lake.server.endpoint}/v1/oauth/tokens"}
    with pyiceberg(lake, root_keys(lake.server), properties=server) as catalog:
        use(catalog, namespace)


def test_user_without_s3_permissions_uses_tables_with_an_oauth_credential(
    lake: Lake, namespace: str, engineer: User
) -> None:
    with pyiceberg(lake, engineer.keys) as catalog:
        use(catalog, namespace)
        assert catalog.load_table((namespace, "t")).io.properties["s3.session-token"]


def test_user_is_limited_to_its_permissions(lake: Lake, catalog: RestCatalog, namespace: str, analyst: User) -> None:
    use(catalog, namespace)
    with pyiceberg(lake, analyst.keys) as reading:
        table = reading.load_table((namespace, "t"))
        assert ids_of(table) == [1, 3]
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            table.append(people(9))
        with pytest.raises(ForbiddenError):
            reading.drop_table((namespace, "t"))


def test_pyiceberg_refreshes_tokens(lake: Lake, namespace: str, engineer: User) -> None:
    auth = {
        "type": "oauth2",
        "oauth2": {
            "client_id": engineer.keys.access_key,
            "client_secret": engineer.keys.secret_key,
            "token_url": f"{lake.server.endpoint}/v1/oauth/tokens",
            "scope": "PRINCIPAL_ROLE:ALL",
        },
    }
    settings = {"uri": f"{lake.server.endpoint}{OWN}", "warehouse": lake.warehouse, "auth": auth}
    with closing(RestCatalog("lake", **settings)) as catalog:  # type: ignore[arg-type]  # nested settings
        use(catalog, namespace)


def test_wrong_credentials_get_an_oauth_error(lake: Lake, engineer: User) -> None:
    for keys in (Keys("unknown-client", "secret"), Keys(engineer.keys.access_key, "not the secret")):
        with pytest.raises(OAuthError, match="invalid_client"), pyiceberg(lake, keys):
            pass


def test_given_token_is_sufficient(lake: Lake, namespace: str, engineer: User) -> None:
    fields = {
        "grant_type": "client_credentials",
        "client_id": engineer.keys.access_key,
        "client_secret": engineer.keys.secret_key,
    }
    url = f"{lake.server.endpoint}{OWN}/v1/oauth/tokens"
    token = json.loads(fetch("POST", url, headers=FORM, body=urlencode(fields).encode()).body)["access_token"]
    settings = {"uri": f"{lake.server.endpoint}{OWN}", "warehouse": lake.warehouse, "token": token}
    with closing(RestCatalog("lake", **settings)) as catalog:
        use(catalog, namespace)
    with pytest.raises(UnauthorizedError):
        RestCatalog("lake", **{**settings, "token": token[:-5] + "AAAAA"})


def test_disabling_a_user_takes_effect_during_its_session(lake: Lake, tmp_path: Any, namespace: str) -> None:
    user = user_with_actions(lake.server, tmp_path, "s3tables:*")
    with pyiceberg(lake, user.keys) as catalog:
        table = catalog.create_table((namespace, "t"), SCHEMA)
        table.append(people(1))
        administer(lake.server, "user", "disable", user.name)
        # The request is refused, and so is the request for a new token.
        with pytest.raises(OAuthError, match="invalid_client"):
            catalog.load_table((namespace, "t"))
        with pytest.raises(OSError, match=r"INVALID_ACCESS_KEY_ID|ACCESS_DENIED|InvalidAccessKeyId"):
            table.append(people(2))

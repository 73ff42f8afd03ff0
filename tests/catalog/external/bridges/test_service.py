from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lakebed.catalog.external.bridges.model import BridgeConfig, BridgeState, ExternalCatalogKind, SyncMode, SyncStatus
from lakebed.catalog.external.bridges.service import Bridges
from lakebed.catalog.external.remote.model import AuthKind, RemoteAuth, RemoteSecrets
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, Corrupted, InvalidInput, NoSuchBucket, NoSuchNamespace, NotFound
from lakebed.core.secrets import Secret
from lakebed.meta.seam import Transaction
from tests.catalog.extension_catalog import extended
from tests.catalog.external.bridges.external_tables import OPERATED, POLLED
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, user_with
from tests.objects.stores import ROOT

BEARER = msgspec.structs.replace(POLLED, auth=RemoteAuth(kind=AuthKind.BEARER))
TOKEN = RemoteSecrets(token=Secret("t0k3n-of-theirs"))


def bridges_of(catalog: CatalogHarness) -> Bridges:
    return extended(catalog).tables.bridges


async def test_bridge_is_stored_returned_and_removed(catalog: CatalogHarness) -> None:
    bridges = bridges_of(catalog)
    assert (await bridges.get(ROOT, "lake", name())).bridge is None
    made = (await bridges.configure(ROOT, "lake", name(), OPERATED)).bridge
    assert made is not None
    found = await bridges.get(ROOT, "lake", name())
    assert found.bridge == made
    assert found.entry is None
    assert (made.config, made.state, made.due_ms) == (OPERATED, BridgeState(), None)
    await bridges.remove(ROOT, "lake", name())
    assert (await bridges.get(ROOT, "lake", name())).bridge is None
    with pytest.raises(NotFound):
        await bridges.remove(ROOT, "lake", name())
    assert [kind for kind, _ in (await catalog.events())[-2:]] == ["TableBridgeConfigured", "TableBridgeRemoved"]


async def test_polled_bridge_is_due_at_once(light_catalog: CatalogHarness) -> None:
    made = (await bridges_of(light_catalog).configure(ROOT, "lake", name(), POLLED)).bridge
    assert made is not None
    assert made.due_ms == light_catalog.store.clock.now_ms()


async def test_secrets_are_encrypted_and_bound_to_their_row(catalog: CatalogHarness) -> None:
    bridges = bridges_of(catalog)
    made = (await bridges.configure(ROOT, "lake", name(), BEARER, TOKEN)).bridge
    assert made is not None
    assert bridges.secrets_of(made) == TOKEN
    dump = repr(await catalog.store.meta.rows("SELECT * FROM bridges")) + repr(await catalog.events()) + repr(made)
    assert "t0k3n" not in dump
    other = (await bridges.configure(ROOT, "lake", name("u"), OPERATED)).bridge
    assert other is not None
    moved = replace(other, sealed=made.sealed)
    with pytest.raises(Corrupted):
        bridges.secrets_of(moved)


async def test_state_is_kept_while_the_external_table_stays_the_same(light_catalog: CatalogHarness) -> None:
    bridges = bridges_of(light_catalog)
    await bridges.configure(ROOT, "lake", name(), POLLED)
    state = BridgeState(status=SyncStatus.COMMITTED, entry="e", synced_at="s3://lake/1.json", synced_token="v")

    async def learn(tx: Transaction) -> None:
        await tx.run("UPDATE bridges SET state = ?", msgspec.json.encode(state))

    await light_catalog.store.meta.transact(learn)
    slower = msgspec.structs.replace(POLLED, poll_seconds=600)
    kept = (await bridges.configure(ROOT, "lake", name(), slower)).bridge
    assert kept is not None
    assert kept.state == state
    elsewhere = msgspec.structs.replace(POLLED, uri="https://other.example")
    fresh = (await bridges.configure(ROOT, "lake", name(), elsewhere)).bridge
    assert fresh is not None
    assert fresh.state == BridgeState()
    assert fresh.created_ms == kept.created_ms


async def test_namespace_must_exist_and_is_dropped_with_its_bridges(light_catalog: CatalogHarness) -> None:
    bridges = bridges_of(light_catalog)
    with pytest.raises(NoSuchNamespace):
        await bridges.configure(ROOT, "lake", name("t", "none"), OPERATED)
    await light_catalog.namespace("gone")
    await bridges.configure(ROOT, "lake", name("t", "gone"), OPERATED)
    await light_catalog.namespaces.drop(Mutation(ROOT), "lake", ["gone"])
    assert await light_catalog.store.meta.rows("SELECT name FROM bridges") == []


async def test_invalid_configuration_stores_nothing(light_catalog: CatalogHarness) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput):
            await bridges_of(light_catalog).configure(ROOT, "lake", name(), BEARER)


async def test_rest_bridges_require_a_separate_permission(light_catalog: CatalogHarness) -> None:
    bridges = bridges_of(light_catalog)
    maker = user_with("s3tables:*")
    await bridges.configure(maker, "lake", name(), OPERATED)
    with pytest.raises(AccessDenied):
        await bridges.configure(maker, "lake", name(), POLLED)
    await bridges.configure(user_with("s3tables:*", "lakebed:ConfigureBridge"), "lake", name(), POLLED)
    for outsider in (UNPRIVILEGED, user_with("lakebed:*")):
        with pytest.raises(AccessDenied):
            await bridges.configure(outsider, "lake", name(), POLLED)
        with pytest.raises(AccessDenied):
            await bridges.get(outsider, "lake", name())
        with pytest.raises(AccessDenied):
            await bridges.remove(outsider, "lake", name())


async def test_folder_bridge_requires_permission_to_read_the_folder(light_catalog: CatalogHarness) -> None:
    await light_catalog.store.bucket("loose")
    bridges = bridges_of(light_catalog)
    folder = BridgeConfig(catalog=ExternalCatalogKind.FOLDER, folder="s3://loose/t/metadata", sync_mode=SyncMode.POLL)
    with pytest.raises(AccessDenied):
        await bridges.configure(user_with("s3tables:*"), "lake", name(), folder)
    with pytest.raises(AccessDenied):
        await bridges.configure(user_with("s3tables:*", "s3:ListBucket"), "lake", name(), folder)
    await bridges.configure(user_with("s3tables:*", "s3:ListBucket", "s3:GetObject"), "lake", name(), folder)
    with pytest.raises(NoSuchBucket):
        await bridges.configure(ROOT, "lake", name(), msgspec.structs.replace(folder, folder="s3://nowhere/t/metadata"))


async def test_folder_of_another_table_requires_permission_for_that_table(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create("secret")
    folder = BridgeConfig(catalog=ExternalCatalogKind.FOLDER, folder=f"{made.entry.location}/metadata")
    reader = user_with("s3tables:CreateTable", "s3:*")
    with pytest.raises(AccessDenied):
        await bridges_of(light_catalog).configure(reader, "lake", name(), folder)


@pytest.mark.parametrize("hosts", [(), ("near.example",)])
async def test_bridges_lead_only_to_hosts_that_the_settings_name(
    light_catalog: CatalogHarness, hosts: tuple[str, ...]
) -> None:
    """For every caller, as with connections: permission for bridges gives no access to the server's network."""
    bridges = extended(light_catalog, hosts=hosts).tables.bridges
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput, match=r"federation\.hosts") as refused:
            await bridges.configure(ROOT, "lake", name(), POLLED)
        assert refused.value.argument == "uri"
    # Bridges without requests are not limited.
    await bridges.configure(ROOT, "lake", name(), OPERATED)


async def test_tokens_for_bridges_are_requested_on_allowed_hosts_only(
    light_catalog: CatalogHarness,
) -> None:
    bridges = extended(light_catalog, hosts=("catalog.example",)).tables.bridges
    auth = RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="https://idp.example/tokens")
    config, secrets = msgspec.structs.replace(POLLED, auth=auth), RemoteSecrets(client_secret=Secret("s3cret"))
    with pytest.raises(InvalidInput, match=r"host=idp\.example:443") as refused:
        await bridges.configure(ROOT, "lake", name(), config, secrets)
    assert refused.value.argument == "token-uri"

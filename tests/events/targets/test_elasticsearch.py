"""Against recorded responses, not a real server: see `tests/fixtures/brokers/elasticsearch.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.elasticsearch import ElasticsearchSettings, ElasticsearchTarget, prepare
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.elasticsearch import ElasticsearchService, recorded_elasticsearch
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElasticsearchService]:
    with recorded_elasticsearch(tmp_path_factory.mktemp("elasticsearch")) as service:
        yield service


class TestElasticsearch(TargetContract):
    """The contract, with the format `access`."""

    async def test_mirror_has_the_current_objects(self, service: ElasticsearchService, destination: str) -> None:
        settings = service.settings(destination, format="namespace")
        await prepare(settings)
        await prepare(settings)
        target = ElasticsearchTarget(settings)
        first, second, other = make_message("b/one"), make_message("b/one"), make_message("b/two")
        for message in (
            first,
            other,
            second,
            make_message("b/two", is_removal=True),
            make_message("b/2", is_removal=True),
        ):
            await target.send(message)
        await target.close()
        (kept,) = service.recorded.indexes[destination].values()
        assert json.loads(kept) == {"Records": json.loads(second.body)["Records"]}

    async def test_rejected_document_is_undeliverable(self, service: ElasticsearchService, destination: str) -> None:
        def refuse(_: object) -> ScriptedResponse:
            return ScriptedResponse(
                400, b'{"error": {"type": "document_parsing_exception", "reason": "a secret"}, "status": 400}'
            )

        with scripted_server(refuse) as server:
            target = ElasticsearchTarget(_settings(server.url, destination))
            with pytest.raises(Undeliverable, match="reason=document_parsing_exception") as raised:
                await target.send(make_message())
            await target.close()
        assert "a secret" not in str(raised.value)

    @pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
    async def test_fixable_errors_are_retryable(self, destination: str, status: int) -> None:
        with scripted_server(lambda _: ScriptedResponse(status, b"not even JSON")) as server:
            target = ElasticsearchTarget(_settings(server.url, destination))
            with pytest.raises(Unavailable, match=f"status={status}"):
                await target.send(make_message())
            with pytest.raises(Unavailable):
                await prepare(_settings(server.url, destination))
            await target.close()


def _settings(url: str, index: str) -> ElasticsearchSettings:
    return ElasticsearchSettings(url=url, index=index)

"""Configures Lakebed and MinIO with the same sinks, and buckets with notification rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks import servers
from benchmarks.endpoint import Endpoint, Request
from benchmarks.events.sink import Sink
from benchmarks.servers import Recipe, Server
from benchmarks.signing import Credentials
from lakebed.client import LakebedClient, ServerAccess
from lakebed.core.secrets import Secret

WEBHOOK = "webhook"
KAFKA = "kafka"
TOPIC = "events"
RULES = 1000


def lakebed() -> Recipe:
    """Lakebed, with a sufficient limit of rules."""
    return _with(servers.lakebed(), lambda folder: {"LAKEBED_TARGETS__RULES_PER_BUCKET": str(RULES)})


def minio(sinks: Mapping[str, Sink]) -> Recipe:
    """MinIO, with its queues on disk: in memory it drops undelivered events."""

    def environment(folder: Path) -> dict[str, str]:
        variables: dict[str, str] = {}
        for kind, sink in sinks.items():
            name = f"MINIO_NOTIFY_{kind.upper()}"
            queue = folder.parent / f"queue-{kind}"
            queue.mkdir(exist_ok=True)
            options = (
                {"ENDPOINT": sink.url} if kind == WEBHOOK else {"BROKERS": sink.brokers, "TOPIC": topic_of("MinIO")}
            )
            options |= {"ENABLE": "on", "QUEUE_DIR": str(queue), "QUEUE_LIMIT": "1000000"}
            variables |= {f"{name}_{key}_sink": value for key, value in options.items()}
        return variables

    return _with(servers.minio(), environment)


def topic_of(server: str) -> str:
    """The topic of a server."""
    return f"{TOPIC}-{server.lower()}"


@contextmanager
def notifying_server(recipe: Recipe, folder: Path, sinks: Mapping[str, Sink]) -> Iterator[Server]:
    """Run a server with the sinks as targets."""
    with ExitStack() as stack:
        server = stack.enter_context(servers.running(recipe, folder))
        if recipe.name == "Lakebed":
            _add_targets(server, sinks)
        yield server


def _add_targets(server: Server, sinks: Mapping[str, Sink]) -> None:
    credentials = server.credentials
    access = ServerAccess(f"http://{server.address}", credentials.access_key, Secret(credentials.secret_key))
    with LakebedClient(access=access) as client:
        for kind, sink in sinks.items():
            settings: dict[str, object] = (
                {"endpoint": sink.url, "auth_token": "benchmark"}
                if kind == WEBHOOK
                else {"brokers": sink.brokers, "topic": topic_of(server.recipe.name)}
            )
            client.targets.put(kind, "sink", settings)


def notify(endpoint: Endpoint, bucket: str, kind: str, *, rules: int = 1) -> None:
    """Add notification rules to a bucket; with many, only the last matches the keys that are written."""
    prefixes = [f"other-{number:05d}/" for number in range(rules - 1)] + [""]
    if rules > 1:
        prefixes[-1] = "k"
    queues = "".join(
        f"<QueueConfiguration><Id>r{number}</Id><Queue>arn:minio:sqs::sink:{kind}</Queue>"
        "<Event>s3:ObjectCreated:*</Event>"
        f"<Filter><S3Key><FilterRule><Name>prefix</Name><Value>{escape(prefix)}</Value></FilterRule></S3Key></Filter>"
        "</QueueConfiguration>"
        for number, prefix in enumerate(prefixes)
    )
    body = f"<NotificationConfiguration>{queues}</NotificationConfiguration>".encode()
    endpoint.call(Request("PUT", f"/{bucket}", query={"notification": ""}, body=body))


def _with(recipe: Recipe, more: object) -> Recipe:
    before = recipe.environment

    def environment(folder: Path, port: int, credentials: Credentials) -> Mapping[str, str]:
        assert callable(more)
        return {**before(folder, port, credentials), **more(folder)}

    return dataclasses.replace(recipe, environment=environment)

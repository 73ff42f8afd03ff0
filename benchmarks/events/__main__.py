"""`python -m benchmarks.events`: event delivery of Lakebed and MinIO, to the same webhook sink and the same Kafka."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import loadtool, results
from benchmarks.events import tables
from benchmarks.events.notifications import KAFKA, WEBHOOK, lakebed, minio, notifying_server, topic_of
from benchmarks.events.outbox_drain import drain
from benchmarks.events.scenarios import measure_emptying, measure_notified, measure_rules
from benchmarks.events.sink import Sink
from benchmarks.machine import machine
from benchmarks.s3.site import Bodies, Site
from benchmarks.servers import free_port
from benchmarks.session import report_progress, run, save, work_folder
from benchmarks.table import Table

NAMES = ("notified", "rules", "emptying", "draining")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds of each (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="length of a round (5; quick: 1)")
    parser.add_argument("--waiting", type=int, help="events queued for a stopped sink (50,000; quick: 2,000)")
    parser.add_argument("--events", type=int, help="events delivered to a target in memory (1,000,000; quick: 20,000)")
    parser.add_argument("--quick", action="store_true", help="short run; not saved in RESULTS.md")
    parser.add_argument("--alone", action="store_true", help="Lakebed without MinIO")
    parser.add_argument("--without-kafka", action="store_true", help="only webhooks")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen benchmarks; 1 if an event was lost or a response was unexpected."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds, seconds = options.rounds or (2 if options.quick else 5), options.seconds or (1 if options.quick else 5)
    wanted = options.only or NAMES
    failed = False
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("events", options.folder))
        scratch = folder / "client"
        scratch.mkdir()
        tool, bodies = loadtool.LoadTool(loadtool.build(), scratch), Bodies(scratch)
        brokers = "" if options.without_kafka or not {"notified"} & {*wanted} else _kafka(stack)
        sites: list[tuple[Site, dict[str, Sink]]] = []
        for name in ["Lakebed"] if options.alone else ["Lakebed", "MinIO"]:
            sinks = {WEBHOOK: Sink(free_port())}
            if brokers:
                sinks[KAFKA] = Sink(free_port(), brokers, topic_of(name))
            for sink in sinks.values():
                stack.callback(sink.stop)
                sink.start()
            recipe = lakebed() if name == "Lakebed" else minio(sinks)
            server = stack.enter_context(notifying_server(recipe, folder / name, sinks))
            sites.append((Site(server, tool, bodies), sinks))
        circumstances = results.Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={site.server.recipe.name: site.server.recipe.version for site, _ in sites},
            durability={site.server.recipe.name: site.server.recipe.durability for site, _ in sites},
            written="a PUT",
            load_average=load_average,
            rounds=rounds,
            seconds=seconds,
            complete=not (options.quick or options.alone or options.only or options.without_kafka or options.rounds),
        )
        report_progress(circumstances.describe())
        if "notified" in wanted:
            found = [
                measure_notified(
                    site, kind, sinks[kind], rounds=rounds, seconds=seconds, calm=50 if options.quick else 500
                )
                for kind in ([WEBHOOK, KAFKA] if brokers else [WEBHOOK])
                for site, sinks in sites
            ]
            failed |= any(one.lost or one.errors for one in found if one.server == "Lakebed")
            save("events-notified", circumstances, found, tables.notified(found))
        if "rules" in wanted:
            ruled = [
                measure_rules(site, WEBHOOK, sinks[WEBHOOK], rounds=rounds, seconds=seconds) for site, sinks in sites
            ]
            failed |= any(one.errors for one in ruled)
            save("events-rules", circumstances, ruled, tables.ruled(ruled))
        if "emptying" in wanted:
            waiting = options.waiting or (2_000 if options.quick else 50_000)
            emptied = [measure_emptying(site, WEBHOOK, sinks[WEBHOOK], events=waiting) for site, sinks in sites]
            failed |= any(one.lost for one in emptied if one.server == "Lakebed")
            save("events-emptying", circumstances, emptied, tables.emptied(emptied))
        if "draining" in wanted:
            count = options.events or (20_000 if options.quick else 1_000_000)
            report_progress(f"Lakebed: delivering {count} events to a target in memory")
            run_folder = folder / "draining"
            run_folder.mkdir()
            drained = asyncio.run(drain(run_folder, events=count, targets=1))
            table = Table("Delivery of queued events to a target in memory", ["result"], [[drained.describe()]])
            save("events-draining", circumstances, drained, table)
    return 1 if failed else 0


def _kafka(stack: ExitStack) -> str:
    """Start a broker; return its address."""
    from tests.fixtures.brokers.kafka import running_kafka
    from tests.fixtures.brokers.service import Auth

    service = stack.enter_context(running_kafka())
    return f"127.0.0.1:{service.ports[Auth.PLAIN]}"


if __name__ == "__main__":
    run(main)

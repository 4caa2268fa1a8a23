"""Exporters: filters with the same endpoint share an exporter, which ends with the last of them."""

import asyncio
import threading
from collections import Counter

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.errors import UsageError
from kproxy.filters.otlp_endpoint import OtlpEndpoint
from kproxy.proxy.otlp.exporters import Exporters, MetricsExport
from tests.filters.telemetry.pushes import gauge, push
from tests.support.loops import LOOPS, run
from tests.support.otlp import http_collector


def used(exporters: Exporters, address: str, counts: Counter[str], cluster: str = "a") -> MetricsExport:
    def count(outcome: str, messages: int) -> None:
        counts[outcome] += messages

    return exporters.use(cluster, OtlpEndpoint(otlp=address), report=[].append, count=count)


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_of_all_users_arrive_as_they_are(loop: str) -> None:
    pushes = [push(gauge(f"metric.{number}", float(number))) for number in range(20)]

    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        one, other = used(exporters, address, counts), used(exporters, address, counts)
        for at, data in enumerate(pushes):
            assert (one, other)[at % 2].offer(data)
        one.close()
        one.close()  # once more is nothing
        assert other.offer(pushes[0])
        other.close()
        assert not other.offer(pushes[0])
        await exporters.close(30)
        assert counts == {"exported": 21, "dropped": 1}

    with http_collector() as collector:
        run(loop, main(collector.address))
        expected = [MetricsData.FromString(data).resource_metrics[0] for data in [*pushes, pushes[0]]]
        assert [metrics for _, metrics in collector.resources()] == expected


def test_after_the_last_user_another_exporter_is_opened() -> None:
    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        first = used(exporters, address, counts)
        first.offer(push())
        first.close()
        second = used(exporters, address, counts)
        second.offer(push(gauge("m", 1.0)))
        await exporters.close(30)
        second.close()
        assert counts == {"exported": 2}

    with http_collector() as collector:
        run("asyncio", main(collector.address))


def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        for cluster in ("a", "b"):
            used(exporters, address, counts, cluster).offer(push())
        await exporters.close(0.2)
        assert counts == {"dropped": 2}

    with http_collector() as collector:
        collector.hang = threading.Event()
        run("uvloop", main(collector.address))


def test_an_endpoint_that_cannot_be_used_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError):
            Exporters().use(
                "a",
                OtlpEndpoint(otlp="https://c:1", ca="/no/such"),
                report=[].append,
                count=lambda outcome, count: None,
            )
        await asyncio.wait_for(Exporters().close(1), 10)

    run("asyncio", main())

"""What filters get of the proxy."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest

from kproxy.filters.contract import ClientMetric
from kproxy.filters.options import Rotated
from kproxy.filters.otlp_endpoint import OtlpEndpoint
from kproxy.filters.telemetry.data_points import LONGEST_KEY, LONGEST_NAME, LONGEST_VALUE
from kproxy.proxy.channel import LONGEST_LINE
from kproxy.proxy.filter_runtime import FilterRuntime
from kproxy.proxy.journals import Journals
from kproxy.proxy.messages import ClientMetrics, Message, ToSupervisor
from kproxy.proxy.otlp.exporters import Exporters
from kproxy.proxy.shared_counts import CALLS, SPENT_NS, SharedCounts
from tests.support.otlp import http_collector


def test_one_journal_for_a_path_in_a_worker(tmp_path: Path) -> None:
    journals = Journals(3)
    one, other = FilterRuntime("a", journals), FilterRuntime("b", journals)
    file = Rotated(path=str(tmp_path / "audit.jsonl"))
    assert one.journal(file) is other.journal(file)
    assert (one.worker, one.cluster) == (3, "a")
    assert one.journal(file).take() == 1
    journals.close()


def test_a_warning_names_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        FilterRuntime("orders", Journals()).warn("it is so", "for\nthis")
    (record,) = caplog.records
    assert record.getMessage() == "it is so"
    assert record.__dict__["keys"] == {"cluster": "orders", "reason": "for\nthis"}


def test_counts_are_of_the_cluster_and_shared_by_name() -> None:
    counts = SharedCounts.create()
    one, other = (FilterRuntime(name, Journals(), counts=counts) for name in ("a", "b"))
    assert [one.shared_count("f", "e", "n").add(2), other.shared_count("f", "e", "n").add()] == [2, 1]
    assert FilterRuntime("a", Journals(), counts=counts).shared_count("f", "e", "n").value == 2
    assert FilterRuntime("a", Journals()).shared_count("f", "e", "n").value == 0


def test_the_time_of_filters_is_counted_over_all_workers() -> None:
    counts = SharedCounts.create()
    for _ in range(2):
        FilterRuntime("a", Journals(), counts=counts).count_time("audit", 1_500, 3)
    FilterRuntime("a", Journals()).count_time("audit", 1_500, 3)  # without counts: nothing
    found = {(one.cluster, one.filter, one.event): one.count for one in counts.rows()}
    assert found == {("a", "audit", SPENT_NS): 3_000, ("a", "audit", CALLS): 6}


def test_time_goes_on() -> None:
    runtime = FilterRuntime("a", Journals())
    before = runtime.monotonic()
    asyncio.run(asyncio.wait_for(runtime.sleep(0.001), 10))
    assert runtime.monotonic() - before >= 0.001
    assert runtime.now() > 1_700_000_000


def test_what_a_client_measures_goes_to_the_supervisor_in_messages_that_fit_a_line() -> None:
    sent: list[Message] = []
    runtime = FilterRuntime("orders", Journals(), send=sent.append)
    longest = ClientMetric("\0" * LONGEST_NAME, True, False, (("\0" * LONGEST_KEY, "\0" * LONGEST_VALUE),) * 16, 1.5)
    runtime.show_client_metrics("app", "AAECAwQFBgcICQoLDA0ODw", [longest] * 50, 60.0, most_names=5, most_series=7)
    assert [len(message.metrics) for message in sent if isinstance(message, ClientMetrics)] == [20, 20, 10]
    lines = [msgspec.json.encode(message) for message in sent]
    assert max(map(len, lines)) < LONGEST_LINE
    assert [msgspec.json.Decoder(ToSupervisor).decode(line) for line in lines] == sent


def test_what_became_of_metrics_that_are_exported_is_counted_for_the_cluster() -> None:
    async def main(address: str) -> None:
        exporters = Exporters()
        runtime = FilterRuntime("orders", Journals(), counts=counts, exporters=exporters)
        export = runtime.export_metrics("telemetry", OtlpEndpoint(otlp=address))
        assert export.offer(b"")
        await exporters.close(30)
        assert not export.offer(b"")

    counts = SharedCounts.create()
    with http_collector() as collector:
        asyncio.run(main(collector.address))
    found = {name: counts.count("orders", "telemetry", "forwarded", name).value for name in ("exported", "dropped")}
    assert found == {"exported": 1, "dropped": 1}

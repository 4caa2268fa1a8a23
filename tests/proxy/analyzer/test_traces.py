"""TraceExport in an analyzer: exchanges go in, a collector has their spans; another configuration changes where they go."""

import asyncio
import subprocess
import sys

import pytest

from kproxy.config import Traces
from kproxy.errors import UsageError
from kproxy.proxy.analyzer.process import Analyzer
from kproxy.proxy.analyzer.traces import TraceExport
from kproxy.session import Exchange
from tests.support.loops import run
from tests.support.otlp import attributes, http_collector
from tests.support.traced import fetch_exchange, produce_exchange, records_of


def test_spans_of_the_apis_asked_for_are_exported_and_counted() -> None:
    async def main(address: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        traces = TraceExport(Traces(otlp=address, sample=1, apis=["Produce"]), [].append, counts)
        assert counts == {"exported": 0, "dropped": 0, "failed": 0}
        for exchange in (produce_exchange(records_of([])), fetch_exchange(b"")):
            traces.output.write(exchange, None)
        await traces.close(30)
        return counts

    with http_collector() as collector:
        assert run("asyncio", main(collector.address)) == {"exported": 1, "dropped": 0, "failed": 0}
        assert [span.name for span in collector.spans()] == ["Produce orders"]


def test_another_configuration_is_used_from_then_on() -> None:
    async def main(first: str, second: str) -> None:
        analyzer = Analyzer([])

        def write(exchange: Exchange) -> None:
            for output in analyzer._run.outputs:
                output.write(exchange, None)

        exchange = produce_exchange(records_of([]))
        analyzer.trace(Traces(otlp=first, sample=1))
        write(exchange)
        analyzer.trace(Traces(otlp=first, sample=1))  # the same: goes on
        write(exchange)
        with pytest.raises(UsageError):
            analyzer.trace(Traces(otlp="https://c:1", ca="/no/such/file"))
        write(exchange)
        analyzer.trace(Traces(otlp=second, sample=1, service_name="second"))
        write(exchange)
        await analyzer.end_traces(30)
        assert analyzer.message().spans == {"exported": 4, "dropped": 0, "failed": 0}
        analyzer.trace(None)
        write(exchange)
        await asyncio.wait_for(analyzer.end_traces(30), 30)
        assert analyzer.message().spans == {"exported": 4, "dropped": 0, "failed": 0}

    with http_collector() as first, http_collector() as second:
        run("asyncio", main(first.address, second.address))
        assert (len(first.spans()), len(second.spans())) == (3, 1)
        [resource] = second.requests[0].resource_spans
        assert attributes(resource.resource)["service.name"] == "second"


def test_without_traces_an_analyzer_imports_nothing_of_them() -> None:
    code = "import sys, kproxy.proxy.analyzer.process; print(*(name for name in sys.modules if name.startswith(NAMES)))"
    names = ("opentelemetry", "google.protobuf", "grpc", "kproxy.proxy.otlp", "kproxy.output.spans", "h11")
    words = [sys.executable, "-c", f"NAMES = {names!r}; {code}"]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout.split() == []

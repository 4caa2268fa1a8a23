"""TraceExport: exchanges as spans, by an output of the pipeline and an exporter."""

from collections.abc import Callable, MutableMapping

from kproxy.config.structs import Traces
from kproxy.output.spans import Span, encode_span, request_of
from kproxy.pipeline.span_output import SpanOutput
from kproxy.protocol.facts import facts
from kproxy.proxy.otlp.exporter import OUTCOMES, Exporter
from kproxy.proxy.otlp.transport import transport_to


class TraceExport:
    """Exports the spans of exchanges while it is an output of a run. Made in the event loop.

    Raises UsageError if the endpoint cannot be used.

    Args:
        options: where, and which exchanges.
        report: called with why spans could not be exported.
        counts: of outcomes; they outlive the TraceExport.
    """

    def __init__(self, options: Traces, report: Callable[[str], None], counts: MutableMapping[str, int]) -> None:
        self.options = options
        for outcome in OUTCOMES:
            counts.setdefault(outcome, 0)
        keys = {api.name: key for key, api in facts().apis.items()}
        transport = transport_to(options, "traces")

        def count(outcome: str, spans: int) -> None:
            counts[outcome] += spans

        self._exporter = Exporter(transport, request_of(options.service_name), report, count)
        self.output = SpanOutput(
            self._give, sample=options.sample, api_keys={keys[name] for name in options.apis} if options.apis else None
        )

    async def close(self, seconds: float) -> None:
        """Export what is queued, for at most *seconds*."""
        await self._exporter.close(seconds)

    def _give(self, span: Span) -> None:
        self._exporter.offer(encode_span(span))

"""Turn sampled exchanges into trace spans.

Which exchanges become spans

    Produce whose records carry trace contexts   as the producer decided: if one context is sampled. If it left the decision
                                                 to others (B3), by the trace id and the share
    all others                                   by the share, with a new trace id

The decision by trace id is that of OpenTelemetry's TraceIdRatioBased sampler, so programs with the same share decide alike.
An exchange that is not sampled costs one random number, a Produce request also the reading of its records' headers.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from kproxy.output.bodies import Bodies
from kproxy.output.spans import (
    NAME_THE_CLUSTER,
    Contents,
    Span,
    TraceContext,
    cluster_id_in,
    find_contexts,
    produced,
    span_of,
)
from kproxy.pipeline.output import Observer
from kproxy.protocol import ApiKey
from kproxy.session import Event, Exchange

LOWER = (1 << 64) - 1
MOST_CLUSTERS = 1_000
LEARN_AGAIN_NS = 60_000_000_000  # a new configuration may send the clients to another cluster


class SpanOutput(Observer):
    """Makes spans of sampled exchanges.

    Args:
        give: receives each span.
        sample: share, from 0 to 1, of the exchanges about which the client has not decided.
        api_keys: the APIs whose exchanges become spans; None: all.
        bits: returns that many random bits, for ids.
    """

    def __init__(
        self,
        give: Callable[[Span], None],
        *,
        sample: float,
        api_keys: Collection[int] | None = None,
        bits: Callable[[int], int] = random.Random().getrandbits,  # noqa: B008 - seeded by the system
    ) -> None:
        self._give = give
        self._bound = round(sample * (1 << 64))
        self._api_keys = api_keys
        self._bits = bits
        # Cluster of the configuration -> (id of the Kafka cluster, time in ns when it was read)
        self._cluster_ids: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if type(event) is not Exchange or event.request is None:
            return
        self._learn_cluster_id(event)
        if self._api_keys is not None and event.api_key not in self._api_keys:
            return
        if event.api_key == ApiKey.PRODUCE:
            self._write_produced(event, bodies)
        elif (trace_id := self._new_trace()) is not None:
            self._write(event, bodies, trace_id)

    def _write_produced(self, exchange: Exchange, bodies: Bodies | None) -> None:
        contents = produced(exchange)
        contexts = find_contexts(contents.records)
        if contexts and not self._is_sampled(contexts):
            return
        if len(contexts) == 1:
            self._write(exchange, bodies, contexts[0].trace_id, contents, contexts)
        elif contexts:
            self._write(exchange, bodies, self._random_id(128), contents, contexts)
        elif (trace_id := self._new_trace()) is not None:
            self._write(exchange, bodies, trace_id, contents)

    def _write(
        self,
        exchange: Exchange,
        bodies: Bodies | None,
        trace_id: bytes,
        contents: Contents | None = None,
        contexts: Sequence[TraceContext] = (),
    ) -> None:
        cluster_id, _ = self._cluster_ids.get(exchange.connection.cluster, (None, 0))
        self._give(
            span_of(
                exchange,
                bodies,
                trace_id=trace_id,
                span_id=self._random_id(64),
                contents=contents,
                contexts=contexts,
                cluster_id=cluster_id,
            )
        )

    def _learn_cluster_id(self, exchange: Exchange) -> None:
        """Read the Kafka cluster's id from a response that has it, at most once a minute: those responses may be large."""
        if exchange.api_key not in NAME_THE_CLUSTER or exchange.response is None:
            return
        cluster = exchange.connection.cluster
        _, learned_at = self._cluster_ids.get(cluster, ("", -LEARN_AGAIN_NS))
        if 0 <= exchange.at - learned_at < LEARN_AGAIN_NS:
            return
        cluster_id = cluster_id_in(exchange)
        if cluster_id is not None:
            self._cluster_ids[cluster] = cluster_id, exchange.at
            if len(self._cluster_ids) > MOST_CLUSTERS:
                self._cluster_ids.popitem(last=False)

    def _is_sampled(self, contexts: Sequence[TraceContext]) -> bool:
        return any(
            self._chooses(context.trace_id) if context.sampled is None else context.sampled for context in contexts
        )

    def _chooses(self, trace_id: bytes) -> bool:
        return int.from_bytes(trace_id, "big") & LOWER < self._bound

    def _new_trace(self) -> bytes | None:
        """Return the id of a new trace, or None if it is not sampled."""
        trace_id = self._random_id(128)
        return trace_id if self._chooses(trace_id) else None

    def _random_id(self, bits: int) -> bytes:
        """Return a random id, never the invalid id 0."""
        return (self._bits(bits) or 1).to_bytes(bits // 8, "big")

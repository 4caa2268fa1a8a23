"""The protobuf format of /metrics, in which Prometheus accepts native histograms: metric families, each behind its size.

io.prometheus.client.MetricFamily of github.com/prometheus/client_model. prometheus_client writes text only (its issue 918); the
few messages that are needed are written here. Fields, by number:

    MetricFamily   1 name, 2 help, 3 type, 4 metric*
    Metric         1 label* (1 name, 2 value), 2 gauge, 3 counter, 5 untyped (each 1 value), 7 histogram
    Histogram      1 sample_count, 2 sample_sum, 3 bucket* (1 cumulative_count, 2 upper_bound); of a native one also
                   5 schema, 6 zero_threshold, 7 zero_count, 12 positive_span* (1 offset, 2 length), 13 positive_delta*
"""

import struct
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from kproxy.output.histograms import Counted, Histogram
from kproxy.protocol.frames import uvarint

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
COUNTER, GAUGE, UNTYPED, HISTOGRAM = 0, 1, 3, 4  # MetricType
VALUE_FIELD = {COUNTER: 3, GAUGE: 2, UNTYPED: 5}
TYPES = {"counter": COUNTER, "gauge": GAUGE, "info": GAUGE, "histogram": HISTOGRAM}
SUFFIX = {
    "counter": "_total",
    "info": "_info",
}  # of the sample, and so of the family: Prometheus has no other name for it
_double = struct.Struct("<d").pack


def is_accepted(accept: str) -> bool:
    """Return whether a scraper prefers this format to all text, by the qualities in its Accept header (RFC 9110, 12.5.1)."""
    best, wanted = 0.0, -1.0
    for entry in accept.lower().split(","):
        kind, *parameters = (part.strip().replace(" ", "") for part in entry.split(";"))
        quality = next((_quality(one[2:]) for one in parameters if one.startswith("q=")), 1.0)
        is_protobuf = kind == "application/vnd.google.protobuf" and "encoding=delimited" in parameters
        if is_protobuf and "proto=io.prometheus.client.metricfamily" in parameters:
            wanted = max(wanted, quality)
        else:
            best = max(best, quality)
    return wanted > 0 and wanted >= best


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def encode(families: Iterable[Metric]) -> bytes:
    """Encode all families, with classic and native histograms."""
    return b"".join(_sized(_family(family)) for family in families)


def _family(family: Metric) -> bytes:
    kind = TYPES.get(family.type, UNTYPED)
    head = _text(1, family.name + SUFFIX.get(family.type, "")) + _text(2, family.documentation) + _number(3, kind)
    return head + b"".join(_field(4, metric) for metric in _metrics(family, kind))


def _metrics(family: Metric, kind: int) -> Iterator[bytes]:
    if isinstance(family, Histogram):
        for counted in family.counted:
            labels = dict(zip(family.label_names, counted.labels, strict=True))
            yield _labels(labels) + _field(7, _histogram(family, counted))
        return
    for sample in family.samples:
        yield _labels(sample.labels) + _field(VALUE_FIELD[kind], _real(1, sample.value))


def _histogram(family: Histogram, counted: Counted) -> bytes:
    parts = [_number(1, sum(counted.counts)), _real(2, counted.total)]
    for bound, height in family.classic(counted):
        parts.append(_field(3, _number(1, height) + _real(2, float(bound))))
    native = family.native(counted)
    parts += [_number(5, _zigzag(native["schema"])), _real(6, native["zero_threshold"])]
    parts.append(_number(7, native["zero_count"]))
    parts += [_field(12, _number(1, _zigzag(offset)) + _number(2, length)) for offset, length in native["spans"]]
    parts.append(_field(13, b"".join(uvarint(_zigzag(delta)) for delta in native["deltas"])))
    return b"".join(parts)


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join(_field(1, _text(1, name) + _text(2, value)) for name, value in labels.items())


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _sized(data: bytes) -> bytes:
    return uvarint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return uvarint(field << 3) + uvarint(value)


def _real(field: int, value: float) -> bytes:
    return uvarint(field << 3 | 1) + _double(value)


def _field(field: int, data: bytes) -> bytes:
    return uvarint(field << 3 | 2) + _sized(data)


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode("utf-8", "replace"))

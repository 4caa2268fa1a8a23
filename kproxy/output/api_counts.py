"""What a worker counts by API (kproxy.proxy.tap.counters), and metrics.py shows."""

from typing import NamedTuple


class ApiTotals(NamedTuple):
    """Counts of one API at one version; None is ``other``: a key, or a version of this API, that is not known."""

    api_key: int | None
    api_version: int | None
    requests: int
    request_bytes: int  # with their size fields
    responses: int
    response_bytes: int
    latency_ns: int  # sum over the responses
    histogram: tuple[int, ...]  # responses by latency, in the buckets DURATIONS of metrics.py


class ApiHistograms(NamedTuple):
    """Histograms of one API at all its versions; None: keys that are not known."""

    api_key: int | None
    phase_ns: tuple[int, ...]  # sum of each Phase (kproxy.proxy.tap.counted)
    phases: tuple[
        tuple[int, ...], ...
    ]  # of each Phase: exchanges by its duration, in the buckets DURATIONS of metrics.py
    sizes: tuple[tuple[int, ...], ...]  # of requests, of responses: how many by bytes on the wire, in its buckets SIZES

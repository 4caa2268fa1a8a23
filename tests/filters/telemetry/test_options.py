"""Mistakes in the options of telemetry."""

import pytest

from kproxy.errors import UsageError
from kproxy.filters.loading import load_filter


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "both"}, "mode: 'both' is not one of tap, terminate"),
        ({"push_interval": "2h"}, "push_interval: 7200.0 is out of range"),
        ({"compression": ["brotli"]}, "compression[0]: 'brotli' is not one of"),
        ({"forward": {"otlp": "collector:4318"}}, "forward.otlp: it is not the URL"),
        ({"forward": {"otlp": "http://c:1", "headers": {"host": "x"}}}, "forward.headers.host: kproxy sets this"),
        ({"forward": {}}, "forward.otlp: it is missing"),
        ({"most_clients": 0}, "most_clients: 0 is out of range"),
        ({"most_metrics": 50_001}, "most_metrics: 50001 is out of range"),
        ({"most_labels": 17}, "most_labels: 17 is out of range"),
        ({"most_names": 501}, "most_names: 501 is out of range"),
        ({"most_series": 1_001}, "most_series: 1001 is out of range"),
        ({"most_bytes": "1GiB"}, "at most 16MiB"),
    ],
)
def test_mistakes_are_said_with_their_place(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_filter("telemetry", options)
    assert said in str(caught.value).replace('"', "'")

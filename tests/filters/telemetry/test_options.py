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
        ({"most_bytes": "1GiB"}, "at most 16MiB"),
    ],
)
def test_mistakes_are_said_with_their_place(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_filter("telemetry", options)
    assert said in str(caught.value).replace('"', "'")

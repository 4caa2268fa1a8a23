"""Lines: what is shown, once each, to a sink; lines of a decoded log as they were."""

from pathlib import Path

import pytest

from kproxy.output.jsonl import event_line
from kproxy.pipeline.line_output import Lines
from kproxy.pipeline.sink import Sink
from tests.support.traffic import golden_exchanges


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_what_is_not_shown_is_not_written(path: Path) -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    with Lines(event_line, Sink(path, live=False)) as lines:
        lines.write(exchange, None, shown=False)
        lines.write(exchange, None)
    assert path.read_bytes() == event_line(exchange)


def test_a_line_of_a_decoded_log_stays_as_it_is_and_is_text_where_text_is_wanted(path: Path) -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    line = b'{"event": "exchange", "with": "spaces"}\n'
    with Lines(event_line, Sink(path, live=False)) as lines:
        lines.write(exchange, None, line=line)
    assert path.read_bytes() == line
    with Lines(lambda event, bodies: b"text\n", Sink(path, live=False)) as lines:
        lines.write(exchange, None, line=line)
    assert path.read_bytes() == b"text\n"


def test_a_flush_makes_lines_visible(path: Path) -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    with Lines(event_line, Sink(path, live=False)) as lines:
        lines.write(exchange, None)
        assert path.read_bytes() == b""
        lines.flush()
        assert path.read_bytes() == event_line(exchange)

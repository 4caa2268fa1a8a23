"""Lines: what is shown, once each, to a sink; lines of a decoded log as they were."""

from pathlib import Path

import pytest

from kproxy.output.jsonl import event_line
from kproxy.pipeline import line_output
from kproxy.pipeline.line_output import LOOK_BACK, Lines, ListedLines
from kproxy.pipeline.sink import Sink
from kproxy.session import Event
from tests.support.corpus import golden_exchanges


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


def listed(path: Path, times: list[int], most: int | None = None) -> list[int]:
    """Write a line for each event of these times; the times of the lines in the file."""
    _, _, event = next(iter(golden_exchanges()))
    events = {at: event.copy() for at in times}
    of_event = {id(event): at for at, event in events.items()}

    def time_of(event: Event) -> int:
        return of_event[id(event)]

    first: list[int] = []
    with ListedLines(
        lambda event, bodies: b"%d\n" % time_of(event),
        Sink(path, live=False),
        time_of=time_of,
        most=most,
        on_first=first.append,
    ) as lines:
        for at in times:
            lines.write(events[at], None)
        assert not lines.is_full
    found = [int(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert first == found[:1]
    return found


def test_listed_lines_are_in_the_order_of_their_times(path: Path) -> None:
    assert listed(path, [3, 1, 2]) == [1, 2, 3]
    assert listed(path, [3, 1, 2], most=2) == [1, 2]


def test_a_line_that_comes_too_late_stands_where_it_comes(path: Path) -> None:
    assert listed(path, [5, 4, LOOK_BACK + 6, 3, LOOK_BACK + 5]) == [4, 5, 3, LOOK_BACK + 5, LOOK_BACK + 6]


def test_few_bytes_of_lines_are_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_output, "MOST_HELD", 4)  # two lines
    assert listed(path, [9, 8, 7, 6]) == [7, 6, 8, 9]

"""What an output must have, and what it may leave out."""

import pytest

from kproxy.output.bodies import Bodies
from kproxy.pipeline.output import End, Observer, Output, Source
from kproxy.session import Event
from tests.support.traffic import CONNECTION


class Writer(Output):
    """Has the three methods that an output cannot do without."""

    def __init__(self) -> None:
        self.closed: list[BaseException | None] = []

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None: ...

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None:
        self.closed.append(error)


@pytest.mark.parametrize("missing", ["write", "flush", "close"])
def test_an_output_that_could_lose_bytes_cannot_be_made(missing: str) -> None:
    methods = {name: getattr(Writer, name) for name in ("write", "flush", "close") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (Output,), methods)()


def test_sources_and_ends_may_be_ignored() -> None:
    output = Writer()
    output.start_source(Source(1, "a.pcap"))
    output.end(End(1, 5, "client"))
    assert output.closed == []


def test_leaving_the_block_closes_with_the_error_that_ended_it() -> None:
    output, error = Writer(), ZeroDivisionError()
    with output:
        pass
    with pytest.raises(ZeroDivisionError), output:
        raise error
    assert output.closed == [None, error]


def test_an_observer_has_nothing_to_flush() -> None:
    class Counter(Observer):
        count = 0

        def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
            self.count += shown

    with Counter() as counter:
        counter.write(Event(CONNECTION, 1), None)
        counter.flush()
    assert counter.count == 1 and not counter.needs_frames

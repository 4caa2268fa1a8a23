"""The last exchanges are kept for a page that comes later, within a bound, in their order; those of groups stay longer."""

from pathlib import Path

from kproxy.output.bodies import Bodies
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.output import End, Output
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer.past import OVERHEAD, Past
from kproxy.proxy.analyzer.rare_exchanges import ALWAYS
from kproxy.session import Event, Exchange
from tests.page.feeding import ORDERS, decoded, feed_of, live, send, sent
from tests.support.kafka.processes import eventually


class Noted(Output):
    """What an output was given."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends: list[End] = []

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if isinstance(event, Exchange):
            self.events.append(event)

    def end(self, end: End) -> None:
        self.ends.append(end)

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None: ...


def read(output: Output) -> None:
    """Give an output what is in a capture."""
    run = Run(Options(), [output])
    with open_input(ORDERS) as source:
        for _ in run.read(source):
            pass


def test_with_enough_room_it_gives_all_in_their_order() -> None:
    past, live_output, later = Past(1 << 30), Noted(), Noted()
    read(past)
    read(live_output)
    past.replay(later)
    assert [event.correlation_id for event in later.events if isinstance(event, Exchange)] == [
        event.correlation_id for event in live_output.events if isinstance(event, Exchange)
    ]
    assert later.ends == live_output.ends != []


def test_the_oldest_leave_and_those_of_groups_stay_longer() -> None:
    everything, few = Noted(), Noted()
    past = Past(60 * OVERHEAD)
    read(everything)
    read(past)
    past.replay(few)
    assert past.size <= 60 * OVERHEAD
    kept = [(event.connection.number, event.correlation_id) for event in few.events if isinstance(event, Exchange)]
    came = [
        (event.connection.number, event.correlation_id) for event in everything.events if isinstance(event, Exchange)
    ]
    assert 0 < len(kept) < len(came) and [one for one in came if one in kept] == kept
    assert kept[-1] == came[-1]
    first = min(came.index(one) for one in kept)
    assert everything.events[first].api_key in ALWAYS  # type: ignore[attr-defined]


def test_a_page_that_comes_later_begins_with_it(tmp_path: Path) -> None:
    past = Past(1 << 24)
    read(past)
    with live(tmp_path) as store:
        feed = feed_of(tmp_path)
        past.replay(feed)
        sent(feed)
        eventually(lambda: store.exchanges == len(decoded()), what="the past")
        assert store.seen == store.exchanges
        send(feed)
        eventually(lambda: store.exchanges == 2 * len(decoded()), what="what came later")
        feed.close()

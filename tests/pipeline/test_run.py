"""One run: sources in, events to every output, damage and faults kept."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.cli import main
from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.pipeline import flow_reader, late_names
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.output import End, Observer, Output, Source
from kproxy.pipeline.run import Options, Run
from kproxy.session import ClusterView, Direction, Event, Exchange, Session
from tests.support.built_captures import pcap
from tests.support.conversation import broker, client, events_of, new_session
from tests.support.corpus import CAPTURES
from tests.support.frames import (
    delete_topic,
    delete_topic_answer,
    heartbeat,
    heartbeat_answer,
    metadata,
    metadata_answer,
)
from tests.support.variants import load

FIRST = CAPTURES / "01-java-produce-consume-group.pcap"
KRAFT = CAPTURES / "10-kraft-interbroker.pcap"


class Collector(Observer):
    """Keeps what it is given."""

    def __init__(self, *, reads_bodies: bool = False) -> None:
        self.reads_bodies = reads_bodies
        self.sources: list[Source] = []
        self.events: list[tuple[Event, bool]] = []
        self.bodies: list[Bodies | None] = []
        self.lines: list[bytes | None] = []
        self.ends: list[End] = []
        self.closed = 0

    def start_source(self, source: Source) -> None:
        self.sources.append(source)

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        self.events.append((event, shown))
        self.bodies.append(bodies)
        self.lines.append(line)

    def end(self, end: End) -> None:
        self.ends.append(end)

    def close(self, error: BaseException | None = None) -> None:
        self.closed += 1


def read(run: Run, *paths: Path) -> None:
    for path in paths:
        with open_input(path) as source:
            for _ in run.read(source):
                pass


def test_every_output_gets_every_event_and_every_end() -> None:
    one, other = Collector(), Collector()
    with Run(outputs=[one, other]) as run:
        read(run, FIRST)
    assert len(one.events) == 23
    assert one.events == other.events and one.ends == other.ends
    assert {end.side for end in one.ends} == {"client", "broker", None}
    assert {end.reason for end in one.ends if end.side is None} == {"finished"}
    assert [source.name for source in one.sources] == [FIRST.name]
    assert (one.closed, other.closed) == (1, 1)


def test_numbers_of_connections_go_on_from_file_to_file_and_sources_are_told_apart() -> None:
    collector = Collector()
    with Run(outputs=[collector]) as run:
        read(run, FIRST, FIRST)
    numbers = [event.connection.number for event, _ in collector.events]
    assert set(numbers[:23]) == {1, 2, 3, 4, 5} and set(numbers[23:]) == {6, 7, 8, 9, 10}
    assert [source.number for source in collector.sources] == [1, 2]


def test_bodies_are_read_where_one_output_wants_them_and_the_event_is_shown() -> None:
    one, other = Collector(), Collector(reads_bodies=True)
    with Run(Options(where='apiName == "Metadata"'), [one, other]) as run:
        read(run, FIRST)
    assert sum(shown for _, shown in one.events) == 3
    assert [bodies is not None for bodies in one.bodies] == [shown for _, shown in one.events]
    assert all(first is second for first, second in zip(one.bodies, other.bodies, strict=True))
    alone = Collector()
    with Run(outputs=[alone]) as run:
        read(run, FIRST)
    assert set(alone.bodies) == {None}


def test_a_decoded_log_gives_the_same_events_with_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    whole = Collector(reads_bodies=True)
    with Run(outputs=[whole]) as run:
        read(run, FIRST)
    lines = [event_line(event, bodies) for (event, _), bodies in zip(whole.events, whole.bodies, strict=True)]
    log.write_bytes(b"".join(lines) + b'{"event":"exchange"}\n')
    again = Collector()
    with Run(outputs=[again]) as run:
        read(run, log)
    assert again.lines == lines
    assert len(run.damages) == 1 and "line 24: no event of a decoded log" in run.damages[0]


def test_damage_is_kept_and_what_comes_before_it_was_written(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(FIRST.read_bytes()[:49_990])
    collector = Collector()
    with Run(outputs=[collector]) as run:
        read(run, cut, FIRST)
    assert len(run.damages) == 1 and "cut.pcap: byte " in run.damages[0]
    assert 23 < len(collector.events) <= 46


def test_an_interrupt_ends_the_source_and_tells_what_is_in_flight() -> None:
    collector = Collector()
    with open_capture(KRAFT) as capture, Run(outputs=[collector]) as run:
        for number, _ in enumerate(run.read(capture)):
            if number == 5:
                break
        run.interrupt()
        run.interrupt()
    assert run.interrupted
    assert 6 < len(collector.events) < 100
    assert {end.reason for end in collector.ends if end.side is None} == {"end of capture"}


def test_an_output_may_come_and_go_between_events() -> None:
    one, late = Collector(), Collector()
    with Run(outputs=[one]) as run:
        read(run, FIRST)
        run.add_output(late)
        run.remove_output(one)
        read(run, FIRST)
    assert len(one.events) == len(late.events) == 23
    assert (one.closed, late.closed) == (0, 1)
    assert [source.number for source in late.sources] == [1, 2]


def test_wrong_options_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean apiKey"):
        Run(Options(where="apikey == 3"))
    with pytest.raises(UsageError, match="cannot be opened"):
        Run(Options(keylog=tmp_path / "none"))


def faulty(number: int) -> type[Session]:
    class Faulty(Session):
        def receive(self, direction: Direction, data: bytes, at: int) -> list[Event]:
            if self.connection.number == number:
                raise ZeroDivisionError
            return super().receive(direction, data, at)

    return Faulty


def test_a_fault_in_one_flow_is_counted_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_reader, "Session", faulty(2))
    collector = Collector()
    with Run(Options(contain=(Exception,)), [collector]) as run:
        read(run, FIRST)
    assert {event.connection.number for event, _ in collector.events} == {1, 3, 4, 5}
    assert run.faults == {"ZeroDivisionError": 1}


def test_without_containment_a_fault_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_reader, "Session", faulty(2))
    with pytest.raises(ZeroDivisionError), Run(outputs=[Collector()]) as run:
        read(run, FIRST)


def test_flow_items_from_elsewhere_are_read_as_those_of_a_capture() -> None:
    one, other = Collector(), Collector()
    with Run(outputs=[one]) as run:
        read(run, FIRST)
    with open_capture(FIRST) as capture, Run(outputs=[other]) as run:
        for _ in run.read_flow_items(read_flows(capture), "a partition"):
            pass
    assert [event_line(event) for event, _ in one.events] == [event_line(event) for event, _ in other.events]


def test_live_sources_run_side_by_side_and_share_what_they_learn_of_a_cluster() -> None:
    collector = Collector()
    faults: list[tuple[int, BaseException]] = []
    with Run(Options(contain=(Exception,)), [collector]) as run:
        taps = [
            run.open_live(f"worker {ring}", lambda number, error: faults.append((number, error))) for ring in (0, 1)
        ]
        for tap in taps:
            tap.open(1, 1, client="c:1", broker="b:1", cluster="orders", from_start=True)
        for tap in taps:
            tap.receive(1, 0, heartbeat(1), 5)
            tap.receive(1, 1, heartbeat_answer(1), 6)
        taps[1].fail(1, ValueError())
    assert [type(event) for event, _ in collector.events] == [Exchange, Exchange]
    assert [source.name for source in collector.sources] == ["worker 0", "worker 1"] * 2
    assert [number for number, _ in faults] == [1]


ORDERS = bytes(range(16))
RATES = bytes(range(100, 116))


class Conversation:
    """Events of one cluster, and what LateNames gives on of them: correlation ids with the names known then."""

    def __init__(self, *, waits: bool = True) -> None:
        self.cluster = ClusterView()
        self.session = new_session(cluster=self.cluster)
        self.given: list[object] = []
        self.names = LateNames(self._give, lambda end: self.given.append(f"end of {end.connection}"), waits=waits)

    def _give(self, event: Event) -> None:
        assert isinstance(event, Exchange)
        self.given.append((event.correlation_id, sorted(event.topic_names.values())))

    def deletes(self, number: int, topic_id: bytes = ORDERS) -> None:
        asked, answered = client >> delete_topic(number, topic_id), broker >> delete_topic_answer(number, topic_id)
        for event in events_of(asked, answered, session=self.session):
            self.names.write(event)

    def beats(self, number: int) -> None:
        for event in events_of(client >> heartbeat(number), broker >> heartbeat_answer(number), session=self.session):
            self.names.write(event)

    def asks(self, number: int, **topics: bytes) -> None:
        asked, answered = client >> metadata(number), broker >> metadata_answer(number, topics, {})
        for event in events_of(asked, answered, session=self.session):
            self.names.write(event)

    def ends(self) -> None:
        self.names.end(End(1, 5))


def test_what_comes_before_the_names_waits_for_them_and_keeps_its_place() -> None:
    told = Conversation()
    told.beats(1)
    told.deletes(2)
    told.beats(3)
    told.ends()
    assert told.given == [(1, [])]
    told.asks(4, orders=ORDERS)
    assert told.given == [(1, []), (2, ["orders"]), (3, []), "end of 1", (4, ["orders"])]
    told.ends()
    assert told.given[-1] == "end of 1"


def test_another_topics_name_lets_nothing_go() -> None:
    told = Conversation()
    told.deletes(1)
    told.asks(2, rates=RATES)
    assert told.given == []
    told.asks(3, orders=ORDERS)
    assert [given[0] for given in told.given if isinstance(given, tuple)] == [1, 2, 3]


def test_names_that_never_come_are_not_waited_for_beyond_the_end() -> None:
    told = Conversation()
    told.deletes(1)
    told.ends()
    told.names.close()
    assert told.given == [(1, []), "end of 1"]
    told.deletes(2)  # of the next capture
    assert len(told.given) == 2


def test_no_more_is_held_than_the_limits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_names, "HELD", 3)
    told = Conversation()
    for number in range(5):
        told.deletes(number)
    assert [given[0] for given in told.given if isinstance(given, tuple)] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(late_names, "HELD", 1_000)
    monkeypatch.setattr(late_names, "HELD_SIZE", 120)
    told = Conversation()
    told.deletes(1)
    assert told.given == []
    told.deletes(2)
    assert len(told.given) == 2


def test_when_names_come_first_nothing_is_looked_at_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_names, "NAMED", 3)
    told = Conversation()
    told.asks(1, orders=ORDERS)
    told.deletes(2)
    told.deletes(3)
    told.deletes(4, RATES)
    assert len(told.given) == 4


def test_names_of_another_broker_may_come_late_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where several captures are read as one: the second has its own brokers, and may begin before the names."""
    monkeypatch.setattr(late_names, "NAMED", 3)
    told = Conversation()
    told.asks(1, orders=ORDERS)
    for number in (2, 3, 4):
        told.deletes(number)
    assert told.names.is_settled
    told.session = Session(number=2, client="10.0.0.5:51234", broker="10.0.0.8:9092", cluster=told.cluster)
    told.deletes(5, RATES)
    assert (len(told.given), told.names.is_settled) == (4, False)
    told.asks(6, rates=RATES)
    assert told.given[4:] == [(5, ["rates"]), (6, ["rates"])]


def test_what_is_watched_live_or_too_large_to_be_looked_into_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Conversation(waits=False)
    watched.deletes(1)
    assert watched.given == [(1, [])]
    monkeypatch.setattr(late_names, "LARGEST", 50)
    told = Conversation()
    told.deletes(1)
    assert told.given == [(1, [])]


def test_the_records_of_a_shuffled_capture_are_of_the_same_topics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = load("10")
    random.Random(5).shuffle(packets)
    shuffled = tmp_path / "shuffled.pcap"
    shuffled.write_bytes(pcap(packets))
    counted = [records(path, capsys) for path in (CAPTURES / "10-kraft-interbroker.pcap", shuffled)]
    assert counted[0] == counted[1]
    assert counted[0]["rep"] == 300  # by the capture's README


def records(path: Path, capsys: pytest.CaptureFixture[str]) -> Counter[str]:
    with pytest.raises(SystemExit):
        main(["decode", "-q", "--format", "jsonl", "--where", 'apiName == "Produce"', str(path)])
    found: Counter[str] = Counter()
    for line in capsys.readouterr().out.splitlines():
        for inside in json.loads(line)["embedded"]:
            found[inside["json"]["topic"]] += inside["json"]["count"]
    return found


class Writer(Output):
    """Has the three methods that an output cannot do without."""

    def __init__(self) -> None:
        self.closed: list[BaseException | None] = []

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None: ...

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None:
        self.closed.append(error)


def test_leaving_the_block_closes_with_the_error_that_ended_it() -> None:
    output, error = Writer(), ZeroDivisionError()
    with output:
        pass
    with pytest.raises(ZeroDivisionError), output:
        raise error
    assert output.closed == [None, error]

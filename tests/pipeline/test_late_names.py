"""Events that wait for the names of their topics, and how long they do."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.pipeline import late_names
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.output import End
from kproxy.session import ClusterView, Event, Exchange
from tests.support.built_captures import pcap
from tests.support.conversation import broker, client, events_of, new_session
from tests.support.frames import (
    delete_topic,
    delete_topic_answer,
    heartbeat,
    heartbeat_answer,
    metadata,
    metadata_answer,
)
from tests.support.traffic import CAPTURES
from tests.support.variants import load

ORDERS = bytes(range(16))
RATES = bytes(range(100, 116))


class Conversation:
    """Events of one cluster, and what LateNames gives on of them: correlation ids with the names known then."""

    def __init__(self, *, waits: bool = True) -> None:
        self.session = new_session(cluster=ClusterView())
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


def test_what_is_too_large_to_be_looked_into_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_names, "LARGEST", 50)
    told = Conversation()
    told.deletes(1)
    assert told.given == [(1, [])]


def test_where_somebody_watches_nothing_waits() -> None:
    told = Conversation(waits=False)
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

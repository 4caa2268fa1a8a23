"""Dividing a capture: every event in one task, in an order that all agree on, with what connections tell each other."""

from pathlib import Path

import pytest

from kproxy.capture import open_capture
from kproxy.output.bodies import Opener
from kproxy.output.jsonl import event_line
from kproxy.pipeline.division import CannotDivide, DividedClusterView, DividedOpener, Division, Fact
from kproxy.pipeline.line_output import Lines
from kproxy.pipeline.run import Run

CAPTURES = Path(__file__).parents[2] / "captures"
UUID = "AAAAAAAAAAAAAAAAAAAAAg"


class StubLink:
    """The other tasks: all their facts, and how far they are."""

    def __init__(self, facts: list[Fact], reached: int) -> None:
        self.facts = facts
        self.reached = reached
        self.published: list[Fact] = []
        self.asked: list[int] = []

    def publish(self, fact: Fact) -> None:
        self.published.append(fact)

    def ask(self, before: int) -> tuple[int, list[Fact]]:
        self.asked.append(before)
        facts, self.facts = self.facts, []
        return self.reached, facts

    def report(self) -> None:
        pass


class Positions:
    """Keeps each line with the position at which it was written."""

    def __init__(self, division: Division) -> None:
        self.division = division
        self.lines: list[tuple[int, bytes]] = []

    def write(self, line: bytes) -> None:
        if self.division.divided:
            self.lines.append((self.division.position, line))

    def flush(self) -> None:
        pass

    def close(self, error: BaseException | None = None) -> None:
        pass


def lines_of(task: int, tasks: int, path: Path) -> list[tuple[int, bytes]]:
    division = Division(task, tasks, StubLink([], 1 << 60), head=0)
    written = Positions(division)
    with Run(outputs=[Lines(event_line, written)]) as run, open_capture(path) as capture:
        for _ in run.read_part(capture, division):
            pass
    return written.lines


# Captures in which no connection needs what another has shown
@pytest.mark.parametrize("name", ["08-old-broker-0.9-format0.pcap", "11-lossy-network.pcap"])
@pytest.mark.parametrize("tasks", [2, 4])
def test_each_event_is_in_one_part_and_positions_give_the_order_of_an_undivided_run(name: str, tasks: int) -> None:
    whole = [line for _, line in lines_of(0, 1, CAPTURES / name)]
    parts = [lines_of(task, tasks, CAPTURES / name) for task in range(tasks)]
    assert sum(map(len, parts)) == len(whole) > 0
    assert sum(map(bool, parts)) > 1
    assert [line for _, line in sorted((line for part in parts for line in part), key=lambda line: line[0])] == whole


def divided(facts: list[Fact], *, position: int, reached: int = 1_000) -> tuple[Division, StubLink]:
    link = StubLink(facts, reached)
    division = Division(0, 2, link)
    division.divided = True
    division.position = position
    return division, link


def test_a_name_of_another_task_is_known_from_its_position_on() -> None:
    division, link = divided([Fact(40, ("topic", UUID), "orders")], position=40)
    assert division.cluster.topic_name(UUID) is None
    division.position = 41
    assert division.cluster.topic_name(UUID) == "orders"
    assert link.asked == [40]  # the others were beyond 41 already


def test_a_task_asks_again_only_beyond_what_the_others_had_reached() -> None:
    division, link = divided([], position=10, reached=20)
    for position in (10, 15, 21, 22):
        division.position = position
        assert division.cluster.topic_name(UUID) is None
    assert link.asked == [10, 22]


def test_own_names_are_published_once_and_must_not_change() -> None:
    division, link = divided([], position=7)
    view = division.cluster
    assert isinstance(view, DividedClusterView)
    view.learn_topic(UUID, "orders")
    view.learn_topic(UUID, "orders")
    assert link.published == [Fact(7, ("topic", UUID), "orders")]
    with pytest.raises(CannotDivide):
        view.learn_topic(UUID, "payments")


def test_the_protocol_of_a_group_comes_from_other_tasks_too() -> None:
    division, link = divided([Fact(3, ("group", "g"), ("consumer", "range"))], position=4)
    opener = division.opener(Opener())
    assert isinstance(opener, DividedOpener)
    assert opener.protocols_of("g") == ("consumer", "range")
    opener.note_protocols("h", ("consumer", None))  # nothing that others lack
    opener.note_protocols("h", ("consumer", "sticky"))
    assert link.published == [Fact(4, ("group", "h"), ("consumer", "sticky"))]
    with pytest.raises(CannotDivide):
        opener.note_protocols("h", ("connect", "sessioned"))

"""Items know their flow and which way they go."""

from kproxy.capture import Closed, CloseReason, Data, Differs, Ended, Gap, Opened
from tests.support.built_captures import Conversation, reassemble

MADE = Conversation().handshake().send(0, b"abc").send(1, b"xyz").finish()
ITEMS = reassemble(MADE.packets)


def test_one_of_each() -> None:
    assert [type(item) for item in ITEMS] == [Opened, Data, Data, Ended, Ended, Closed]
    assert {item.flow for item in ITEMS} == {ITEMS[0].flow}
    assert [item.time_ns for item in ITEMS] == sorted(item.time_ns for item in ITEMS)


def test_directions_follow_the_roles_of_the_flow() -> None:
    flow = ITEMS[0].flow
    ways = [Gap(flow, 1, 0, 5), Ended(flow, 1, 1, False), Differs(flow, 1, 0, 7, 2)]
    before = [way.direction for way in ways]
    flow.swap()
    assert [way.direction for way in ways] == [1 - direction for direction in before]
    flow.swap()
    assert before == [flow.direction(0), flow.direction(1), flow.direction(0)] == [0, 1, 0]


def test_reasons_are_words() -> None:
    assert str(CloseReason.CAPTURE_END) == "end of capture"
    assert CloseReason("reset") is CloseReason.RESET

"""Small parts of filters: bounded sets, kinds of faults, large records, wanted frames."""

from collections.abc import Awaitable

import pytest

from kproxy.errors import EncodeError, Truncated
from kproxy.filters.bounded_set import LONGEST_VALUE, BoundedSet
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Direction, Forward, Outcome, RequestFacts, Send
from kproxy.filters.large_records import LARGE, RATIO, take_long
from kproxy.filters.passage import Kind, Unusable, kind_of
from kproxy.protocol import message
from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.support.filtering import Scripted, connection
from tests.support.frames import request
from tests.support.messages import answer_frame, make


def test_what_was_added_longest_ago_is_forgotten_first() -> None:
    values = BoundedSet(most=2)
    for each in ("a", "b", "a", "c"):
        values.add(each)
    assert (list(values), len(values), "b" in values) == (["a", "c"], 2, False)


def test_only_what_is_new_and_of_this_process_is_told() -> None:
    told: list[str] = []
    values = BoundedSet(on_new=told.append)
    values.receive(["a", "b"])
    for each in ("a", "c", "c"):
        values.add(each)
    assert told == ["c"]
    assert list(values) == ["b", "a", "c"]


def test_a_value_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="301 characters"):
        BoundedSet().add("x" * (LONGEST_VALUE + 1))


def test_what_was_added_since_a_change_also_when_it_is_full() -> None:
    values = BoundedSet(most=3)
    assert values.added_since(0) == (0, [])
    values.receive(["a", "b", "c"])
    assert values.added_since(0) == (3, ["a", "b", "c"])
    values.add("d")
    values.add("b")
    assert values.added_since(3) == (5, ["d", "b"])
    assert values.added_since(5) == (5, [])
    assert values.added_since(0) == (5, ["c", "d", "b"])


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (KeyError("x"), "raised"),
        (ValueError("x"), "raised"),
        (TimeoutError(), "timed_out"),
        (Unusable("no verdict"), "unusable"),
        (EncodeError("x"), "unusable"),
        (Truncated("x"), "undecodable"),
    ],
)
def test_kind(fault: Exception, kind: Kind) -> None:
    assert kind_of(fault) == kind


def field(codec: Codec, size: int) -> bytes:
    return write_batches([RecordBatch([Record(value=b"words that are alike " * (size // 21))], codec=codec)])


@pytest.mark.parametrize("codec", Codec)
def test_by_their_size_and_by_what_they_may_be_unpacked(codec: Codec) -> None:
    small, large = field(codec, 1_000), field(Codec.NONE, LARGE + 1_000)
    assert not take_long([small, small])
    assert take_long([small, large])
    many = [small] * (LARGE // RATIO // len(small) + 1)
    assert take_long(many) == (codec is not Codec.NONE)


def test_what_is_no_batch() -> None:
    assert not take_long([])
    assert not take_long([bytes(LARGE)])
    assert take_long([bytes(LARGE), b"\0"])


PRODUCE = 0
BODY = message("ProduceRequest").encode(9, make("ProduceRequest", acks=-1))
ANSWER = answer_frame("ProduceResponse", 9)


class OfOneClient(Scripted):
    """Wants what the client "app" sends and gets."""

    name = "of one client"

    def wants_frame(self, connection: ConnectionFacts, direction: Direction, request: RequestFacts) -> bool:
        if request.client_id == "broken":
            raise RuntimeError("broken")
        return request.client_id == "app"


def of_one_client() -> OfOneClient:
    return OfOneClient(lambda _: Forward(), requests={PRODUCE}, responses={PRODUCE}, fails_open=True)


def asked(client_id: str, body: bytes = BODY) -> bytes:
    return request(PRODUCE, 9, 7, body, tags=b"\0", client_id=client_id)


def at_once(outcome: Outcome | Awaitable[Outcome]) -> Send:
    assert isinstance(outcome, Send)
    return outcome


def test_a_frame_that_no_filter_wants_is_not_read() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    unreadable = asked("other", b"no Produce")
    assert at_once(chain.on_request(connection(), unreadable)).frame is unreadable
    assert not filter_.seen
    assert not chain.faults
    chain.on_request(connection(), asked("app", b"no Produce"))
    assert chain.faults == {"of one client": 1}


def test_others_get_it_and_the_request_is_kept_for_who_wants_it() -> None:
    first, second = of_one_client(), Scripted(lambda _: Forward(), requests={PRODUCE}, responses={PRODUCE})
    chain, alone = Chain([first, second]), Chain([first, Scripted(lambda _: Forward(), requests={PRODUCE})])
    for client_id, seen in (("other", 0), ("app", 2)):
        first.seen.clear()
        sent = at_once(chain.on_request(connection(), asked(client_id)))
        assert sent.request is not None
        assert sent.request.message is not None
        at_once(chain.on_response(connection(), sent.request, ANSWER))
        assert len(first.seen) == seen
        sent = at_once(alone.on_request(connection(), asked(client_id)))
        assert sent.request is not None
        assert (sent.request.message is None) is (seen == 0)
    assert len(second.seen) == 4


def test_a_filter_that_fails_to_say_gets_the_frame() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    at_once(chain.on_request(connection(), asked("broken")))
    assert len(filter_.seen) == 1
    assert chain.faults == {"of one client": 1}


def test_a_request_without_a_readable_header_is_a_fault_of_who_wants_it() -> None:
    filter_ = of_one_client()
    chain = Chain([filter_])
    frame = asked("other")[:14]
    assert at_once(chain.on_request(connection(), frame)).frame == frame
    assert chain.faults == {"of one client": 1}
